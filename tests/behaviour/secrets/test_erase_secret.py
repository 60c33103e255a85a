"""``store.erase_secret``: a store that has a secret in clear is written again without it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.known_secrets import NAME, VALUE, places, port_of

import holdfast
from holdfast.codec import secrets
from holdfast.model.secret_text import mask_of

LONG = 3_000


class Calls:
    """What was called."""

    made: list[str] = []  # noqa: RUF012


def fail(text: str) -> None:
    raise ValueError(f"401: {text}", {"header": text}) from OSError(5, text)


def called(what: str, value: Any) -> Any:
    Calls.made.append(what)
    return value


def program(run: holdfast.Run, secret: str) -> Any:
    """Puts the secret wherever a program can; a replay makes no call."""

    def fetch(key: str) -> Any:
        return called("fetch", {"deep": [(key, {key: 1})], "raw": key.encode(), "bad": f"\udc80{key}"})

    def ask(request: dict[str, Any]) -> Any:
        return called("model", {"content": f"the key is {request['messages'][0]['content']}"})

    found = [run.step("fetch", fetch, secret), run.step("long", lambda: called("long", [secret] * LONG))]
    with pytest.raises(ValueError, match="401"):
        run.step("fail", fail, secret)
    run.plan([f"use {secret}"])
    run.think(f"about {secret}")
    run.decide(f"use {secret}", because=secret)
    run.discover(f"{secret} works")
    run.say(f"sent {secret}")
    run.step(f"named {secret}", lambda: called("named", 1))
    found.append(run.model("m", ask, {"messages": [{"role": "user", "content": secret}]}))
    run.checkpoint(
        {"key": secret, "text": "x" * 9_000 + secret + "y" * 9_000, "n": list(range(500))}, label="one"
    )
    run.checkpoint({"key": secret, "text": "other", "n": list(range(500))}, label=f"two {secret}")
    run.messages.append({"role": "user", "content": f"use {secret}"})
    run.remember(f"the key is {secret}", value={"key": secret}, tags=[f"t {secret}"])
    run.keep(run.promise(f"send {secret}", to="Ada"), note=f"sent {secret}")
    run.step("last", lambda: called("last", secret))
    found.append(run.messages[0])
    return found


@pytest.fixture
def clear(no_secret: None, tmp_path: Path) -> holdfast.Store:
    """A store with a run, a child, a fork and a fork of it, in which the secret stands in clear."""
    store = holdfast.store(tmp_path / "s.db")
    with pytest.raises(KeyboardInterrupt), holdfast.run("r", store=store, goal=f"with {VALUE}") as run:
        program(run, VALUE)
        with holdfast.run("child", store=store, goal=VALUE, inputs={"key": VALUE}) as child:
            child.step("inside", str, VALUE)
        raise KeyboardInterrupt
    store.fork("r", as_="f")
    with pytest.raises(KeyboardInterrupt), holdfast.run("f", store=store, goal=f"with {VALUE}") as run:
        program(run, VALUE)
        run.step("own", str, VALUE)
        raise KeyboardInterrupt
    store.fork("f", as_="g")
    return store


def check_clean(store: holdfast.Store, tmp_path: Path) -> None:
    assert places(VALUE, tmp_path, store=port_of(store)) == []
    assert [one for one in store.examine_secrets() if NAME in one.text] == []
    found = [*store.examine(), *store.examine_blobs(full=True)]
    assert [one for one in found if one.verdict == "failure"] == []


def test_nothing_of_the_secret_is_left_and_all_calls_are_answered(
    clear: holdfast.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In no file; the chains of the run, its child and its forks are sound; a replay makes no call again."""
    assert places(VALUE, tmp_path)
    before = {run: clear.past(run) for run in ("r", "r/child", "f", "g")}
    done = clear.erase_secret(NAME, VALUE)
    assert not [run for run, past in before.items() if clear.past(run) == past], (
        "others would keep what they have read"
    )
    assert {one.run for one in done.runs} >= {"r", "r/child", "f"}
    assert done.left == ()
    monkeypatch.setenv(NAME, VALUE)
    check_clean(clear, tmp_path)
    for run_id in ("r", "f"):
        Calls.made.clear()
        head = clear.get(run_id).head
        with pytest.raises(KeyboardInterrupt), holdfast.run(run_id, store=clear, goal=f"with {VALUE}") as run:
            found = program(run, VALUE)
            raise KeyboardInterrupt
        assert Calls.made == []
        assert found[0]["deep"] == [(VALUE, {VALUE: 1})]
        assert found[0]["raw"] == VALUE.encode()
        assert found[1] == [VALUE] * LONG
        assert found[3] == {"role": "user", "content": f"use {VALUE}"}
        assert [e.kind for e in clear.events(run_id) if e.seq > head] == [
            "attempt.started",
            "attempt.ended",
        ], [(e.kind, e.name) for e in clear.events(run_id) if e.seq > head]
    assert clear.erase_secret(NAME).runs == ()
    check_clean(clear, tmp_path)
    monkeypatch.delenv(NAME)
    secrets.know_environment({})
    with pytest.raises(holdfast.SecretMissing, match=NAME), holdfast.run("r", store=clear) as run:
        run.restore()


def check_sound(store: holdfast.Store) -> None:
    found = [*store.examine(), *store.examine_blobs(full=True), *store.examine_secrets()]
    assert [one for one in found if one.verdict == "failure"] == []


def test_a_secret_in_pieces_in_views_in_letters_and_in_commands(
    no_secret: None, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On every store: pieces of a cut-off answer that have it together, compacted history, a letter, a command line."""
    store = holdfast.store(url)
    monkeypatch.setattr(sys, "orig_argv", ["python", "agent.py", f"--key={VALUE}"])

    def cut_off(_: Any) -> Iterator[str]:
        for at in range(0, len(VALUE), 4):
            yield VALUE[at : at + 4]
            for stream in tuple(streams_of(run)):
                stream.flush()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), holdfast.run("r", store=store) as run:
        run.restore({})
        for n in range(4):
            run.step("fetch", str, f"{VALUE} {n}")
            run.messages.append({"role": "user", "content": VALUE})
            run.options(key=f"k{n}").step("keyed", lambda: VALUE)
            run.checkpoint({"key": VALUE, "n": n})
        for _ in run.stream("answer", cut_off, {"key": VALUE}):
            pass
    store.prune(
        "r",
        policy=holdfast.Retention(
            checkpoints=holdfast.Keep(last=1), reasoning=holdfast.Keep(last=1), compact_events=4
        ),
    )
    assert any(event.kind == "compacted" for event in store.events("r"))
    done = store.erase_secret(NAME, VALUE)
    assert done.left == ()
    assert [one.run for one in done.runs] == ["r"]
    monkeypatch.setenv(NAME, VALUE)
    secrets.know_environment({NAME: VALUE})
    check_sound(store)
    texts = [
        store.content(event).get("text", "") for event in store.events("r") if event.kind == "stream.chunk"
    ]
    assert "".join(texts) == mask_of(NAME)
    attempt = store.content(store.view("r").attempts[0].event)
    assert attempt["argv"][-1] == f"--key={mask_of(NAME)}"
    assert attempt["argv_hidden"] == {"2": ["--key=", NAME, ""]}
    with pytest.raises(KeyboardInterrupt), holdfast.run("r", store=store) as run:
        assert run.restore({})["key"] == VALUE
        assert run.messages[0]["content"] == VALUE
        assert run.options(key="k3").step("keyed", lambda: "again") == VALUE
        raise KeyboardInterrupt


def streams_of(run: holdfast.Run) -> Any:
    from holdfast.engine.llm.stream_flusher import Flusher

    return run._held.session.part(Flusher)._streams


def test_an_encrypted_store_is_rewritten_too(
    no_secret: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through its seals; its runs and forks open and replay afterwards, and another handle appends behind them."""
    key = os.urandom(32)
    store = holdfast.store(tmp_path / "s.db", key=key)
    with pytest.raises(KeyboardInterrupt), holdfast.run("r", store=store) as run:
        run.step("fetch", str, VALUE)
        run.checkpoint({"key": VALUE})
        raise KeyboardInterrupt
    store.fork("r", as_="f")
    with pytest.raises(KeyboardInterrupt), holdfast.run("f", store=store) as run:
        run.step("own", str, VALUE)
        raise KeyboardInterrupt
    assert {one.run for one in store.erase_secret(NAME, VALUE).runs} == {"r", "f"}
    monkeypatch.setenv(NAME, VALUE)
    secrets.know_environment({NAME: VALUE})
    check_sound(store)
    with holdfast.run("f", store=store) as run:
        assert run.step("fetch", str, VALUE) == VALUE
        assert [event.name for event in store.events("f")].count("fetch") == 2
        run.step("new", str, 1)
    check_sound(store)


def test_a_live_holder_is_in_the_way_and_a_dry_run_writes_nothing(no_secret: None, tmp_path: Path) -> None:
    """The run is left as it was, and so is a fork that is chained to it."""
    store = holdfast.store(tmp_path / "s.db")
    with holdfast.run("r", store=store) as run:
        run.step("fetch", str, VALUE)
        foreseen = store.erase_secret(NAME, VALUE, dry_run=True)
        assert [(one.run, one.events) for one in foreseen.runs] == [("r", 2)]
        with pytest.raises(holdfast.RunHeld, match="r is held"):
            store.erase_secret(NAME, VALUE)
    store.fork("r", as_="f")
    with (
        holdfast.run("f", store=store, if_finished="reopen"),
        pytest.raises(holdfast.RunHeld, match="f is held"),
    ):
        store.erase_secret(NAME, VALUE)
    assert places(VALUE, tmp_path)
    with pytest.raises(holdfast.SecretMissing, match=NAME):
        store.erase_secret(NAME)
    with pytest.raises(holdfast.Misuse, match="4 characters"):
        store.erase_secret(NAME, "abc")


def test_a_file_and_a_name_that_have_it_are_told(no_secret: None, tmp_path: Path) -> None:
    """Contents of files are not covered, and a run's id cannot change: both are named, not hidden."""
    store = holdfast.store(tmp_path / "s.db")
    with holdfast.run(f"r-{'late-Secret-42'}", store=store, workspace=tmp_path / "w") as run:
        run.step("fetch", str, "late-Secret-42")
    assert store.erase_secret(NAME, "late-Secret-42").left == (
        "the id of run r-late-Secret-42: erase the run",
    )
