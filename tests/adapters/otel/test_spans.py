"""Spans of runs: the SDK's own exporter, by the conventions for generative AI; and a real kill between two attempts."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import holdfast
from holdfast.adapters import otel

ANSWER = {
    "model": "gpt-x-2",
    "choices": [{"message": {"role": "assistant", "content": "secret"}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}
REQUEST = {"model": "gpt-x", "messages": [{"role": "user", "content": "private"}]}


class Seen:
    """What was exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def spans(self) -> dict[str, ReadableSpan]:
        """Since it was asked last, by name."""
        found = {span.name: span for span in self.exporter.get_finished_spans()}
        self.exporter.clear()
        return found


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    with otel.traced(found.provider):
        yield found


@holdfast.tool(effect="once")
def pay(amount: int) -> str:
    trace.get_current_span().set_attribute("inside", True)
    return f"paid {amount}"


def agent(run: holdfast.Run) -> None:
    run.model("chat.completions", lambda _: ANSWER, REQUEST, provider="openai")
    pay(5)
    run.step("count", len, "abc")


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_an_attempt_and_its_calls(seen: Seen, tmp_path: Path) -> None:
    """One trace: the attempt, the model's call with what it took, the tool, and a step; no content."""
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        agent(run)
    spans = seen.spans()
    assert set(spans) == {"invoke_agent r", "chat gpt-x", "execute_tool pay", "count"}
    attempt, chat, tool = (spans[name] for name in ("invoke_agent r", "chat gpt-x", "execute_tool pay"))
    assert attempt.parent is None
    for span in spans.values():
        assert span.context is not None
        assert attempt.context is not None
        assert span.context.trace_id == attempt.context.trace_id
        if span is not attempt:
            assert span.parent is not None
            assert span.parent.span_id == attempt.context.span_id
    assert chat.kind == SpanKind.CLIENT
    told = attributes(chat)
    birth = told.pop("gen_ai.conversation.id")
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.response.model": "gpt-x-2",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "holdfast.run.id": "r",
        "holdfast.step.name": "chat.completions",
    }
    assert attributes(tool)["gen_ai.operation.name"] == "execute_tool"
    assert attributes(tool)["gen_ai.tool.name"] == "pay"
    assert attributes(tool)["holdfast.step.effect"] == "once"
    assert attributes(tool)["inside"] is True
    assert attributes(attempt)["gen_ai.agent.name"] == "r"
    assert attributes(attempt)["holdfast.status"] == "finished"
    assert {attributes(span)["gen_ai.conversation.id"] for span in spans.values()} == {birth}
    assert b"secret" not in b"".join(span.to_json().encode() for span in spans.values())
    assert not trace.get_current_span().get_span_context().is_valid


def test_the_next_attempt_is_a_trace_of_its_own_and_linked(seen: Seen, tmp_path: Path) -> None:
    """What is answered from the journal is counted, not told: ten thousand steps are one number.

    Planted: the ids of an attempt's span not recorded with it (no link).
    """
    with pytest.raises(ZeroDivisionError), holdfast.run("r", store=tmp_path / "s.db") as run:
        agent(run)
        run.step("break", lambda: 1 // 0)
    first = seen.spans()
    failed = first["invoke_agent r"]
    assert (failed.status.status_code, attributes(failed)["error.type"]) == (
        StatusCode.ERROR,
        "ZeroDivisionError",
    )
    assert first["break"].status.status_code == StatusCode.ERROR
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        agent(run)
        run.step("mend", int)
    second = seen.spans()
    assert set(second) == {"invoke_agent r", "mend"}
    attempt = second["invoke_agent r"]
    assert failed.context is not None
    assert attempt.context is not None
    (link,) = attempt.links
    assert (link.context.trace_id, link.context.span_id) == (failed.context.trace_id, failed.context.span_id)
    assert attempt.context.trace_id != failed.context.trace_id
    told = attributes(attempt)
    assert (told["holdfast.attempt"], told["holdfast.replayed_steps"]) == (2, 3)
    assert told["gen_ai.conversation.id"] == attributes(failed)["gen_ai.conversation.id"]


def test_replayed_calls_as_spans(tmp_path: Path) -> None:
    """Where somebody wants to see them: marked, and of the same names."""
    found = Seen()
    with otel.traced(found.provider, replayed="spans"):
        for _ in range(2):
            with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen") as run:
                agent(run)
            spans = found.spans()
    assert set(spans) == {"invoke_agent r", "chat gpt-x", "execute_tool pay", "count"}
    marked = [name for name, span in spans.items() if attributes(span).get("holdfast.replayed")]
    assert sorted(marked) == ["chat gpt-x", "count", "execute_tool pay"]


def test_content_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """By the names of the conventions."""
    found = Seen()
    with (
        otel.traced(found.provider, content=True),
        holdfast.run("r", store=tmp_path / "s.db") as run,
    ):
        agent(run)
    spans = found.spans()
    chat, tool = attributes(spans["chat gpt-x"]), attributes(spans["execute_tool pay"])
    assert json.loads(chat["gen_ai.input.messages"])[0]["content"] == "private"
    assert "secret" in chat["gen_ai.output.messages"]
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"amount": 5}
    assert json.loads(tool["gen_ai.tool.call.result"]) == "paid 5"


def test_inside_of_another_trace(seen: Seen, tmp_path: Path) -> None:
    """A run that a request enters is a part of that request's trace; what is current afterwards is what was before."""
    tracer = seen.provider.get_tracer("web")
    with tracer.start_as_current_span("GET /") as request:
        with holdfast.run("r", store=tmp_path / "s.db") as run:
            agent(run)
        assert trace.get_current_span() is request
    spans = seen.spans()
    assert spans["invoke_agent r"].parent == request.get_span_context()


def test_parallel_async_calls(seen: Seen, tmp_path: Path) -> None:
    """Each call's span is current inside of that call, and the attempt's again behind it."""

    async def work() -> None:
        async with holdfast.run("r", store=tmp_path / "s.db") as run:

            async def one(n: int) -> None:
                await asyncio.sleep(0.01 * (2 - n))
                trace.get_current_span().set_attribute("n", n)

            await asyncio.gather(*(run.step(f"one-{n}", one, n) for n in range(3)))
            trace.get_current_span().add_event("after")

    asyncio.run(work())
    spans = seen.spans()
    assert [attributes(spans[f"one-{n}"])["n"] for n in range(3)] == [0, 1, 2]
    assert [event.name for event in spans["invoke_agent r"].events] == ["after"]


def test_streams(seen: Seen, tmp_path: Path) -> None:
    """The span of a stream lasts until its end; it is not current, since nobody knows where it is read."""
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        for _ in run.stream("chat.completions", lambda _: iter(["Hel", "lo"]), REQUEST):
            assert trace.get_current_span().is_recording()
    spans = seen.spans()
    assert set(spans) == {"invoke_agent r", "chat gpt-x"}


def test_parked_and_in_doubt(seen: Seen, tmp_path: Path) -> None:
    """To wait for a person is no error; not to know whether something happened is one."""
    with pytest.raises(holdfast.Parked), holdfast.run("ask", store=tmp_path / "s.db") as run:
        run.ask("May I?", returns=bool)
    parked = seen.spans()["invoke_agent ask"]
    assert parked.status.status_code == StatusCode.UNSET
    assert attributes(parked)["holdfast.status"] == "parked"
    assert "holdfast.question.asked" in [event.name for event in parked.events]

    def cut() -> None:
        raise ConnectionError

    with pytest.raises(holdfast.StepInDoubt), holdfast.run("doubt", store=tmp_path / "s.db") as run:
        run.once("charge", cut)
    spans = seen.spans()
    for name in ("charge", "invoke_agent doubt"):
        assert spans[name].status.status_code == StatusCode.ERROR
        assert attributes(spans[name])["holdfast.in_doubt"] is True


def test_nobody_looks_on_behind_the_block(tmp_path: Path) -> None:
    """``traced`` ends with its block; ``instrument`` is for good."""
    found = Seen()
    with otel.traced(found.provider):
        pass
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        agent(run)
    assert found.spans() == {}
    with pytest.raises(holdfast.BadOption):
        otel.instrument(replayed="all")  # type: ignore[arg-type]


def test_calls_of_a_framework(seen: Seen, tmp_path: Path) -> None:
    """An agent that makes a task for each of its turns: all of its spans are in the trace of the attempt."""
    from tests.adapters.pydantic_ai.scripted import make_agent

    from holdfast.adapters.pydantic_ai import durable

    async def work() -> None:
        async with holdfast.run("r", store=tmp_path / "s.db"):
            await durable(make_agent([])).run("go")

    asyncio.run(work())
    spans = seen.exporter.get_finished_spans()
    names = sorted(span.name for span in spans)
    assert names == [*["chat scripted"] * 3, "execute_tool look", *["execute_tool pay"] * 3, "invoke_agent r"]
    assert len({span.context.trace_id for span in spans if span.context}) == 1


KILLED = r"""
import os, signal, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
import holdfast
from holdfast.adapters import otel

provider = TracerProvider()
told = open("spans", "a")
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(
    out=told, formatter=lambda span: span.to_json(indent=None) + "\n")))
otel.instrument(provider)

def strike():
    if not os.path.exists("killed"):
        open("killed", "w").close()
        told.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    return "lived"

with holdfast.run("r", store="s.db") as run:
    run.step("before", int)
    run.step("strike", strike)
"""


def test_linked_across_a_kill(tmp_path: Path) -> None:
    """The killed attempt has no end, and its span is never exported; the next one points to it all the same."""
    (tmp_path / "program.py").write_text(KILLED)
    codes = [
        subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=False).returncode for _ in range(2)
    ]
    assert codes == [-9, 0]
    spans = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    assert [span["name"] for span in spans] == ["before", "strike", "invoke_agent r"]
    before, strike, attempt = spans
    (link,) = attempt["links"]
    assert link["context"]["trace_id"] == before["context"]["trace_id"]
    assert link["context"]["span_id"] == before["parent_id"]
    assert strike["context"]["trace_id"] == attempt["context"]["trace_id"] != before["context"]["trace_id"]
    assert "holdfast.attempt.crashed" in [event["name"] for event in attempt["events"]]
    told = [span["attributes"]["gen_ai.conversation.id"] for span in spans]
    assert len(set(told)) == 1
