"""Every way out of Holdfast: none shows a secret, whether it was recorded in clear or by reference.

A table of outlets. Each is given two runs into which a secret was put in every way that a program has: one of before it
was known, one of since. Seen to fail: the lines of a planned pause (their command had it), handoff
documents of runs that were recorded in clear, the inspector's JSON, and names of models in spans.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.known_secrets import NAME, VALUE, known_secrets
from tests.support.receiver import receiving

import holdfast
from holdfast.api.excepthook import lines_of
from holdfast.cli.app import app
from holdfast.cli.watch.notices import Notice, NoticePrinter
from holdfast.engine.hooks.declared import forget_declared
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.replies import Reply, answering

RUNS = ("clear", "hidden")


def fail(text: str) -> None:
    error = ValueError(f"401: {text}", {"header": text})
    error.add_note(f"sent with {text}")
    try:
        raise RuntimeError(text)
    except RuntimeError as cause:
        raise error from cause


def fill(store: holdfast.Store, name: str, secret: str, directory: Path) -> None:
    """A run that has it in arguments, results, failures, pieces, requests, questions, files' names, labels, state, facts."""
    hooks = [holdfast.Hook(lambda notice: SEEN.append(repr(notice)))]
    with suppress(holdfast.StopSignal), holdfast.run(
        name, store=store, goal=f"with {secret}", inputs={"key": secret}, mirror=directory / "mirror", hooks=hooks,
        workspace=directory / "w",
    ) as run:  # fmt: skip
        run.step("fetch", lambda key: {"authorization": f"Bearer {key}", key: [key]}, secret)
        with suppress(ValueError):
            run.step("fail", fail, secret)
        run.model(
            "ask",
            lambda _: {"content": secret},
            {"extra_body": {"k": secret}, "extra_headers": {"x": secret}},
        )
        run.model(f"ask {secret}", lambda _: {"model": secret}, {"model": secret, "messages": []})
        "".join(run.stream("say", lambda _: iter([secret[:5], secret[5:]]), {"messages": []}))
        run.think(f"use {secret}")
        run.plan([f"use {secret}"])
        run.decide(f"use {secret}", because=secret)
        run.say(f"use {secret}", to=secret)
        run.checkpoint({"key": secret, secret: 1}, label=f"with {secret}")
        run.messages.append({"role": "user", "content": secret})
        run.remember(f"the key is {secret}", value={"key": secret})
        run.promise(f"send {secret}", to="Ada")
        run.ask(f"May I use {secret}?", about={"key": secret}, wait_s=0)


SEEN: list[str] = []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of one store for all outlets: filling it takes longer than most of them."""
    directory = tmp_path_factory.mktemp("outlets")
    with known_secrets(), pytest.MonkeyPatch.context() as patch:
        made = holdfast.store(directory / "s.db")
        fill(made, "clear", VALUE, directory / "before")
        SEEN.clear()
        patch.setenv(NAME, VALUE)
        holdfast.secret(VALUE, name=NAME)
        fill(made, "hidden", VALUE, directory)
        yield directory
        made.close()
        forget_declared()


def command(*words: str) -> Callable[[holdfast.Store, Path], str]:
    def told(store: holdfast.Store, directory: Path) -> str:
        del directory
        found = ""
        for run in RUNS:
            done = CliRunner().invoke(
                app, [word.replace("RUN", run) for word in words] + ["--store", store.url]
            )
            found += done.output + done.stderr
        return found

    return told


def pages(store: holdfast.Store, directory: Path) -> str:
    """Every page and answer of the inspector, and what follows live."""
    del directory
    pytest.importorskip("starlette")
    from tests.ui.conftest import serving

    from holdfast.ui.run_page import _PARTS

    about_runs = (
        "run",
        "events",
        "rows",
        "checkpoints",
        "effects",
        "plan",
        "artifacts",
        "lineage",
        "people",
        "context",
    )
    paths = [
        "/",
        "/runs",
        "/search?q=key",
        "/effects",
        "/memory",
        "/diff?a=clear&b=hidden",
        "/api/runs",
        "/api/needs",
    ]
    for run in RUNS:
        paths += [f"/run/{run}", *(f"/run/{run}?part={part}" for part in _PARTS)]
        paths += [f"/api/{name}?run={run}" for name in about_runs]
        paths += [f"/api/event?run={run}&seq={event.seq}" for event in store.events(run)]
    found = ""
    with serving(store) as served, served.client() as client:
        for path in paths:
            answer = client.get(path)
            found += answer.text * (answer.status_code == 200)
        for run in RUNS:
            assert f'"{run}"' in found
            with client.stream("GET", f"/live?run={run}", headers={"last-event-id": "1-0"}) as live:
                assert live.status_code == 200
                for line in live.iter_lines():
                    found += line
                    if line.startswith("event: status"):
                        break
    return found


def spans(store: holdfast.Store, directory: Path) -> str:
    """Of a traced attempt, with its contents."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from holdfast.adapters.otel import traced

    exporter, provider = InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with traced(provider, content=True):
        fill(store, "traced", VALUE, directory)
    found = exporter.get_finished_spans()
    assert found
    return "".join(span.to_json() for span in found)


def webhook(store: holdfast.Store, directory: Path) -> str:
    """What a server gets, and what a function of the program got."""
    with receiving() as receiver:
        with suppress(holdfast.StopSignal), holdfast.run(
            "told", store=store, hooks=[holdfast.Hook(receiver.url)], workspace=directory / "w2"
        ) as run:  # fmt: skip
            run.ask(f"May I use {VALUE}?", about={"key": VALUE}, wait_s=0)
        found = repr([vars(one) if hasattr(one, "__dict__") else one for one in receiver.requests])
    assert "May I use" in found
    return found + repr(SEEN)


def pause(store: holdfast.Store, directory: Path) -> str:
    """The lines of a planned pause."""
    del store, directory
    stop = holdfast.AwaitingAnswer(run="r", question="q1", reason=f"May I use {VALUE}?", until=None)
    return "\n".join(lines_of(stop))


def answers(store: holdfast.Store, directory: Path) -> str:
    """The answers and the refusals of the MCP server."""

    async def told(fails: bool) -> Reply:
        if fails:
            raise holdfast.Misuse(problem=f"not {VALUE}", advice=VALUE)
        return Reply(store.context("clear").text + VALUE, {VALUE: [VALUE]})

    tool = answering(HeldRuns(store, str(directory)), told)

    async def asked(fails: bool) -> Any:
        return await tool(fails)

    return repr([asyncio.run(asked(fails)) for fails in (True, False)])


def watched(store: holdfast.Store, directory: Path) -> str:
    """The notices of ``resume --watch``, for people and for programs."""
    del store, directory
    from io import StringIO

    found = StringIO()
    before, sys.stderr = sys.stderr, found
    try:
        for as_json in (False, True):
            NoticePrinter(None, as_json=as_json).tell(
                Notice(1.0, "crashed", f"agent --key={VALUE}", hint=VALUE)
            )
    finally:
        sys.stderr = before
    return found.getvalue()


def files(store: holdfast.Store, directory: Path) -> str:
    """The mirror of the run that knew it."""
    del store
    made = [path for path in (directory / "mirror").rglob("*") if path.is_file()]
    assert made
    return "".join(path.name + path.read_bytes().decode("utf-8", "replace") for path in made)


OUTLETS: dict[str, Callable[[holdfast.Store, Path], str]] = {
    "context": lambda store, _: "".join(store.context(run).text for run in RUNS),
    "handoff": lambda store, _: json.dumps([store.handoff(run) for run in RUNS]),
    "show": command("show", "RUN", "--all"),
    "log": command("log", "RUN"),
    "runs": command("runs", "--json"),
    "resume": command("resume", "RUN", "--dry-run"),
    "answer": command("answer", "RUN"),
    "stats": command("stats", "RUN"),
    "checkpoints": command("checkpoints", "RUN"),
    "memories": command("memories"),
    "search": command("search", "key"),
    "diff": command("diff", "clear", "hidden"),
    "doctor": command("doctor", "--secrets"),
    "inspector": pages,
    "spans": spans,
    "notices": webhook,
    "pauses": pause,
    "mcp": answers,
    "watch": watched,
    "mirror": files,
}


@pytest.mark.parametrize("outlet", OUTLETS)
def test_no_outlet_shows_a_secret(
    outlet: str, place: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any
) -> None:
    """Not even its beginning; nor does the log, or what is printed.

    Seen to fail: a context quoted the message of a failure that quoted its arguments.
    """
    monkeypatch.setattr(sys, "orig_argv", ["python", "agent.py", f"--key={VALUE}"])
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "agent.py", raising=False)
    told = OUTLETS[outlet](holdfast.store(place / "s.db"), place)
    assert told
    printed = capfd.readouterr()
    for text in (told, caplog.text, printed.out, printed.err):
        begin = text.find(VALUE[:7])
        assert begin < 0, text[max(0, begin - 300) : begin + 60]
