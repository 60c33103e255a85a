"""Every surface on which a program can put a secret: its value reaches no file of the store, and none beside it.

Seen to fail: without the hook of ``engine/journal/drafts.py`` all of them do, by the goal; without that of
``codec/scalars.py`` those of bytes and of broken text; without that of ``codec/values.py`` those of data.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.support.known_secrets import NAME, places, port_of

import holdfast
from holdfast.model.secret_text import mask_of

MASK = mask_of(NAME)


@dataclass
class Login:
    """A class of a program, with a secret inside."""

    user: str
    password: str


def fail(text: str) -> None:
    error = ValueError(f"401: {text}", {"header": text})
    error.add_note(f"sent with {text}")
    error.request = {"authorization": f"Bearer {text}"}  # type: ignore[attr-defined]
    raise error from OSError(5, text, f"/tmp/{text}")


def failing(run: holdfast.Run, secret: str) -> None:
    with pytest.raises(ValueError, match="401"):
        run.step("fetch", fail, secret)


def retried(run: holdfast.Run, secret: str) -> None:
    with pytest.raises(ValueError, match="401"):
        run.options(retries=1).step("fetch", fail, secret)


def streamed(run: holdfast.Run, secret: str) -> None:
    pieces = [secret[at : at + 3] for at in range(0, len(secret), 3)]
    assert "".join(run.stream("answer", lambda _: iter(pieces), {"key": secret})) == secret


def streamed_halfway(run: holdfast.Run, secret: str) -> None:
    def call(_: Any) -> Iterator[str]:
        yield "The key is "
        for at in range(0, len(secret), 2):
            yield secret[at : at + 2]
            for stream in tuple(streams(run)):
                stream.flush()
        yield ", and more"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        for _ in run.stream("answer", call, {}):
            pass
    raise KeyboardInterrupt


def streams(run: holdfast.Run) -> Any:
    from holdfast.engine.llm.stream_flusher import Flusher

    return run._held.session.part(Flusher)._streams


def threaded(run: holdfast.Run, secret: str) -> None:
    def work() -> None:
        run.step("in a thread", str, secret)

    worker = Thread(target=run.bind(work))
    worker.start()
    worker.join()


def asked(run: holdfast.Run, secret: str) -> None:
    with pytest.raises(holdfast.AwaitingAnswer) as parked:
        run.ask(f"May I use {secret}?", about={"key": secret}, wait_s=0)
    raise parked.value


def labelled(run: holdfast.Run, secret: str) -> None:
    run.checkpoint({"n": 1}, label=f"with {secret}")


def messages(run: holdfast.Run, secret: str) -> None:
    run.messages.append({"role": "user", "content": f"use {secret}"})
    run.messages.append({"role": "assistant", "content": [{"type": "text", "text": secret}]})
    assert run.messages[0]["content"] == f"use {secret}"


def sent(run: holdfast.Run, secret: str) -> None:
    with pytest.raises(RuntimeError), holdfast.run("r/other", store=run._held.store.url):
        raise RuntimeError  # a run that has not finished gets letters
    run.send("r/other", {"key": secret})


def child(run: holdfast.Run, secret: str) -> None:
    with holdfast.run(
        "child", store=run._held.store.url, goal=f"use {secret}", inputs={"key": secret}
    ) as one:
        one.step("inside", str, secret)


def remembered(run: holdfast.Run, secret: str) -> None:
    run.remember(f"the key is {secret}", tags=[f"t {secret}"], value={"key": secret})
    run.remember(f"another with {secret}", key=f"k {secret}")
    assert run.recall("the key is")


def doubtful(run: holdfast.Run, secret: str) -> None:
    with pytest.raises(holdfast.StepInDoubt) as doubt:
        run.once("pay", fail, secret)
    raise doubt.value


def promised(run: holdfast.Run, secret: str) -> None:
    made = run.promise(f"send {secret}", to="Ada")
    run.keep(made, note=f"sent {secret}")


def once(name: str) -> Callable[[holdfast.Run, str], None]:
    def act(run: holdfast.Run, secret: str) -> None:
        getattr(run, name)(f"about {secret}")

    return act


SURFACES: dict[str, Callable[[holdfast.Run, str], Any]] = {
    "arguments": lambda run, secret: run.step("a", len, f"Bearer {secret}"),
    "results": lambda run, secret: run.step("a", lambda: {"deep": [(secret, {secret: {secret}})]}),
    "long results": lambda run, secret: run.step("a", lambda: [f"Bearer {secret}"] * 10_000),
    "bytes": lambda run, secret: run.step("a", lambda: b"x\xff" + secret.encode() + b"\x00"),
    "broken text": lambda run, secret: run.step("a", lambda: f"\udcff{secret}\udcff"),
    "objects": lambda run, secret: run.step("a", lambda: Login("ada", secret)),
    "paths": lambda run, secret: run.step("a", lambda: Path("/tmp") / secret),
    "names of steps": lambda run, secret: run.step(f"call {secret}", lambda: 1),
    "closures": lambda run, secret: run.step("a", lambda: len(secret)),
    "keys": lambda run, secret: run.options(key=f"k {secret}").step("a", str, secret),
    "scopes": lambda run, secret: run.scope(f"s {secret}").__enter__(),
    "failures": failing,
    "retries": retried,
    "doubts": doubtful,
    "model calls": lambda run, secret: run.model(
        "m", lambda _: {"text": secret}, {"extra_body": {"k": secret}}
    ),
    "messages to models": lambda run, secret: run.model(
        "m", lambda _: {"text": "ok"}, {"messages": [{"role": "user", "content": secret}]}
    ),
    "streams": streamed,
    "broken streams": streamed_halfway,
    "threads": threaded,
    "state": lambda run, secret: run.checkpoint({"login": Login("ada", secret), secret: [secret] * 5_000}),
    "labels": labelled,
    "messages": messages,
    "plans": lambda run, secret: run.plan([f"use {secret}"]),
    "thoughts": once("think"),
    "decisions": lambda run, secret: run.decide(f"use {secret}", because=f"of {secret}"),
    "discoveries": once("discover"),
    "words to others": lambda run, secret: run.say(f"use {secret}", to=secret),
    "memory": remembered,
    "questions": asked,
    "promises": promised,
    "letters": sent,
    "children": child,
    "the end": lambda run, secret: run.finish({"key": secret}, remember=[f"ended with {secret}"]),
}


@pytest.mark.parametrize("surface", SURFACES)
def test_a_secret_reaches_no_file(surface: str, secret: str, tmp_path: Path, caplog: Any) -> None:
    """Not the database, not its write-ahead log, no blob, mirror, export, handoff, context, log line or page."""
    caplog.set_level(logging.DEBUG, "holdfast")
    store = holdfast.store(tmp_path / "s.db")
    try:
        with holdfast.run(
            "r", store=store, goal=f"Log in with {secret}", inputs={"key": secret}, mirror=tmp_path / "mirror"
        ) as run:
            SURFACES[surface](run, secret)
    except (holdfast.StopSignal, KeyboardInterrupt):
        pass
    assert places(secret, tmp_path, store=port_of(store)) == []
    shown(store, secret, tmp_path)
    assert places(secret, tmp_path, store=port_of(store)) == []
    assert secret not in caplog.text


@pytest.mark.parametrize("before", [80, 84, 88, 92])
def test_a_message_is_masked_before_its_line_is_cut(before: int, secret: str, tmp_path: Path) -> None:
    """The intent of a model call has the last message in 100 characters. Seen to fail: half a secret was left."""
    asked = {"messages": [{"role": "user", "content": "x" * before + secret}]}
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        run.model("m", lambda _: {"text": "ok"}, asked)
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret[:4].encode() not in data


def shown(store: holdfast.Store, secret: str, tmp_path: Path) -> None:
    """What people and models see of the run."""
    assert secret not in store.context("r").text
    store.export("r", tmp_path / "r.holdfast")
    store.search("key")


def test_async_runs_hide_as_well(secret: str, tmp_path: Path) -> None:
    """The same code serves both."""

    async def program() -> None:
        async with holdfast.run("r", store=tmp_path / "s.db", goal=secret) as run:
            assert await run.step("a", str, secret) == secret
            await run.checkpoint({"k": secret})

    asyncio.run(program())
    assert places(secret, tmp_path) == []


def test_a_run_or_file_is_not_named_after_a_secret(secret: str, tmp_path: Path) -> None:
    """Masked, its name would mean another run; the error shows the mask."""
    with pytest.raises(holdfast.BadName, match="has a secret") as refused:
        holdfast.run(f"r-{secret}", store=tmp_path / "s.db").open()
    assert secret not in str(refused.value)
    assert places(secret, tmp_path) == []
