"""Agents of LlamaIndex in a run: what is a step, what is answered from the journal, and what leaves the framework."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.llms import MockLLM
from llama_index.core.workflow import Context, StartEvent, StopEvent, Workflow, step
from tests.adapters.llama_index.scripted import (
    EFFECTS,
    answer_calls,
    answer_react,
    close_clients,
    llm_at,
    make_agent,
    pay,
)
from tests.support.model_server import Asked, Provider, Reply, ToolCall

import holdfast
from holdfast.adapters.llama_index import durable
from holdfast.adapters.wire import framework_check

KINDS = {"calls": (answer_calls, 4), "react": (answer_react, 6), "team": (answer_calls, 4)}


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ledger() -> list[str]:
    return Path("ledger").read_text().splitlines() if Path("ledger").exists() else []


async def in_run(url: str, work: Callable[[], Awaitable[Any]], *, fails: bool = False) -> Any:
    try:
        async with holdfast.run("a", store=url):
            made = await work()
            if fails:
                raise ZeroDivisionError
            return made
    finally:
        await close_clients()


def twice(url: str, work: Callable[[], Awaitable[Any]]) -> Any:
    """What the work gives in a run that failed after it and is resumed."""
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_run(url, work, fails=True))
    return asyncio.run(in_run(url, work))


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_agent_asks_and_does_nothing_again(
    provider: Provider, url: str, kind: str, streaming: bool
) -> None:
    """Answers and tools come from the journal; the state that a tool left in its context is there, too."""
    provider.script.answering, requests = KINDS[kind]

    async def work() -> Any:
        agent = durable(make_agent(kind, provider.base_url, streaming=streaming), effects=EFFECTS)
        context = Context(agent)
        result = await agent.run(user_msg="go", ctx=context)
        return str(result), [call.tool_name for call in result.tool_calls], await context.store.get("state")

    assert twice(url, work) == ("done with sea", ["look", "pay", "pay", "note", "pay"], {"seen": "sea"})
    assert len(provider.calls) == requests
    assert sorted(ledger()) == ["note sea", "pay 0", "pay 1", "pay 7"]


def test_results_are_in_the_order_of_the_calls(provider: Provider, url: str) -> None:
    """LlamaIndex has them as they came: the next request would be another one in each attempt."""
    is_slow = [True]

    async def wait(n: int) -> str:
        """Waits."""
        if is_slow and n == 0:
            await asyncio.sleep(0.2)
        return f"waited {n}"

    def answer(asked: Asked) -> Reply:
        calls = tuple(ToolCall("wait", f'{{"n": {n}}}', f"c{n}") for n in range(2))
        return (
            Reply(text="ok") if any(role == "tool" for role, _ in asked.messages) else Reply("", calls=calls)
        )

    provider.script.answering = answer

    async def work() -> Any:
        agent = FunctionAgent(tools=[wait], llm=llm_at(provider.base_url))
        return str(await durable(agent, effects={"wait": "read"}).run(user_msg="go"))

    assert twice(url, work) == "ok"
    assert [said for role, said in _messages(provider.calls[1].body) if role == "tool"] == [
        "waited 0",
        "waited 1",
    ]
    assert len(provider.calls) == 2


def _messages(body: Any) -> list[tuple[str, Any]]:
    return [(message["role"], message.get("content")) for message in body["messages"]]


def charge(n: int) -> str:
    """Charges, and fails afterwards."""
    with Path("ledger").open("a") as lines:
        lines.write(f"charge {n}\n")
    raise ConnectionError("the answer was lost")


@pytest.mark.parametrize("kind", ["calls", "team"])
def test_a_stop_signal_leaves_the_agent(provider: Provider, url: str, kind: str) -> None:
    """A ``once`` tool that fails is in doubt; a call beside it finishes first, and no other is made."""
    calls = (ToolCall("charge", '{"n": 1}', "c"), ToolCall("pay", '{"n": 2}', "d"))
    provider.script.answering = lambda asked: Reply(text="", calls=calls)

    async def work() -> Any:
        return await durable(make_agent(kind, provider.base_url, [charge, pay])).run(user_msg="go")

    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt, match="charge"):
            asyncio.run(in_run(url, work))
    assert sorted(ledger()) == ["charge 1", "pay 2"]
    assert len(provider.calls) == 1


def test_a_failed_read_is_told_to_the_model_and_replayed(provider: Provider, url: str) -> None:
    """The model gets the same message from the journal as from the tool."""
    calls = (ToolCall("charge", '{"n": 1}', "c"),)
    provider.script.answering = lambda asked: (
        Reply(text="gave up")
        if any(role == "tool" for role, _ in asked.messages)
        else Reply(text="", calls=calls)
    )

    async def work() -> Any:
        agent = make_agent("calls", provider.base_url, [charge])
        return str(await durable(agent, effects={"charge": "read"}).run(user_msg="go"))

    assert twice(url, work) == "gave up"
    assert ledger() == ["charge 1"]
    assert len(provider.calls) == 2


def test_a_changed_prompt_stops_the_run(provider: Provider, url: str) -> None:
    """Another request at a recorded place is ``Diverged`` at once, though each turn is a task of its own."""
    provider.script.answering = answer_calls

    async def work(said: str) -> Any:
        return await durable(make_agent("calls", provider.base_url), effects=EFFECTS).run(user_msg=said)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_run(url, lambda: work("go"), fails=True))
    with pytest.raises(holdfast.Diverged):
        asyncio.run(in_run(url, lambda: work("go elsewhere")))
    assert len(provider.calls) == 4


def test_outside_of_a_run_the_agent_is_as_before(provider: Provider) -> None:
    """Nothing is journaled, and each run of the agent acts."""
    provider.script.answering = answer_calls

    async def work() -> list[str]:
        agent = durable(make_agent("calls", provider.base_url), effects=EFFECTS)
        try:
            return [str(await agent.run(user_msg="go")) for _ in range(2)]
        finally:
            await close_clients()

    assert asyncio.run(work()) == ["done with sea"] * 2
    assert len(provider.calls) == 8


def test_what_is_refused(provider: Provider) -> None:
    """An effect of an unknown tool, an LLM without a client, and what is no agent."""
    with pytest.raises(holdfast.Misuse, match="serach"):
        durable(make_agent("calls", provider.base_url), effects={"serach": "read"})
    with pytest.raises(holdfast.Misuse, match="MockLLM"):
        durable(FunctionAgent(tools=[pay], llm=MockLLM()))
    with pytest.raises(holdfast.Misuse, match="no agent"):
        durable(object())


def test_agents_that_hand_over(provider: Provider, url: str) -> None:
    """Each agent of a workflow is durable; the handover itself happens again, as it changes the workflow alone."""

    def answer(asked: Asked) -> Reply:
        said = [name for role, name in asked.messages if role == "assistant"]
        tools = [said for role, said in asked.messages if role == "tool"]
        if any("did pay" in one for one in tools):
            return Reply(text="all paid")
        if any("handed off" in text or "Agent payer" in text for _, text in asked.messages[1:]) or said:
            return Reply(text="", calls=(ToolCall("pay", '{"n": 1}', "p"),))
        handed = '{"to_agent": "payer", "reason": "it pays"}'
        return Reply(text="", calls=(ToolCall("handoff", handed, "h"),))

    provider.script.answering = answer

    async def work() -> Any:
        desk = FunctionAgent(
            name="desk", description="-", llm=llm_at(provider.base_url), can_handoff_to=["payer"]
        )
        payer = FunctionAgent(name="payer", description="Pays.", tools=[pay], llm=llm_at(provider.base_url))
        return str(await durable(AgentWorkflow(agents=[desk, payer], root_agent="desk")).run(user_msg="go"))

    assert twice(url, work) == "all paid"
    bodies = [str(call.body) for call in provider.calls]
    assert len(bodies) == len(set(bodies)) >= 3
    assert ledger() == ["pay 1"]


@holdfast.tool(effect="once")
def reserve(n: int, *, idempotency_key: str = holdfast.KEY) -> str:
    """Reserves."""
    with Path("ledger").open("a") as lines:
        lines.write(f"reserve {n} {idempotency_key}\n")
    return f"did reserve {n}"


def test_a_tool_that_is_a_step_keeps_its_declaration(provider: Provider, url: str) -> None:
    """A ``@holdfast.tool`` among the tools is one step, with its own key, which the model does not see."""
    calls = (ToolCall("reserve", '{"n": 1}', "c"),)
    provider.script.answering = lambda asked: (
        Reply(text="ok") if any(role == "tool" for role, _ in asked.messages) else Reply("", calls=calls)
    )

    async def work() -> Any:
        return str(await durable(make_agent("calls", provider.base_url, [reserve])).run(user_msg="go"))

    assert twice(url, work) == "ok"
    (line,) = ledger()
    assert len(line.removeprefix("reserve 1 ")) == 32
    assert "idempotency_key" not in str(provider.calls[0].body["tools"])
    names = [event.name for event in holdfast.store(url).events("a") if event.kind == "step.started"]
    assert names.count("reserve") == 1


class Order(Workflow):
    """A workflow of one's own: a model call, then an effect."""

    def __init__(self, llm: Any) -> None:
        super().__init__(timeout=30)
        self.llm = llm

    @step
    async def work(self, ev: StartEvent) -> StopEvent:
        said = await self.llm.acomplete("How many?")
        return StopEvent(result=f"{said} {reserve(3)}")


def test_a_workflow_of_ones_own(provider: Provider, url: str, caplog: pytest.LogCaptureFixture) -> None:
    """``durable(llm)`` and ``@holdfast.tool`` make its steps safe to run again; no adapter is missing."""
    provider.script.answering = lambda asked: Reply(text="three")

    async def work() -> Any:
        return await Order(durable(llm_at(provider.base_url))).run()

    assert twice(url, work) == "three did reserve 3"
    assert "tools run again" not in caplog.text
    assert len(provider.calls) == 1
    assert len(ledger()) == 1


def test_a_wrapped_client_alone_is_said_once(
    provider: Provider, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tools run again in each attempt: a warning names the adapter. With the adapter there is none."""
    monkeypatch.setattr(framework_check, "_said", set())
    provider.script.answering = answer_calls

    async def work() -> Any:
        await durable(make_agent("calls", provider.base_url), effects=EFFECTS).run(user_msg="go")
        assert "tools run again" not in caplog.text
        bare = make_agent("calls", provider.base_url)
        bare.llm = durable(bare.llm)
        await bare.run(user_msg="go again")

    asyncio.run(in_run(url, work))
    said = [record.getMessage() for record in caplog.records if "tools run again" in record.getMessage()]
    assert len(said) == 1
    assert "holdfast.adapters.llama_index" in said[0]
