"""Several agents: as tools of each other, in workflows and in orchestrations."""

import asyncio
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentExecutorRequest,
    AgentExecutorResponse,
    Message,
    WorkflowBuilder,
    WorkflowContext,
    executor,
)
from agent_framework.orchestrations import ConcurrentBuilder, HandoffBuilder, SequentialBuilder
from tests.adapters.agent_framework.runs import in_run, ledger, twice
from tests.adapters.agent_framework.scripted import make_agent, pay, write
from tests.support.model_server import Asked, Provider, Reply, ToolCall

import holdfast
from holdfast.adapters.agent_framework import durable


def answer_of(asked: Asked) -> Reply:
    """Each agent pays once, if its instructions say what, and says so."""
    own = next((said for role, said in asked.messages if role in {"system", "developer"}), "")
    is_paid = any(role == "tool" and said.endswith(own) for role, said in asked.messages)
    if is_paid or not own.startswith("pay"):
        return Reply(text=f"{own}, seen {len(asked.messages)}")
    return Reply(text="", calls=(ToolCall("pay", f'{{"n": {own[-1]}}}', f"call-{own[-1]}"),))


@executor(id="join")
async def join(said: list[AgentExecutorResponse], ctx: WorkflowContext[AgentExecutorRequest]) -> None:
    """Hands the answers to a reader."""
    texts = [one.agent_response.text for one in said]
    await ctx.send_message(AgentExecutorRequest([Message("user", texts)], should_respond=True))


def payer(provider: Provider, n: int) -> Agent:
    return make_agent("chat", provider.base_url, [pay], name=f"payer{n}", instructions=f"pay {n}")


@pytest.mark.parametrize("builder", [SequentialBuilder, ConcurrentBuilder])
def test_orchestrations(provider: Provider, url: str, builder: Any) -> None:
    """Each agent of a workflow is durable; the workflow itself runs again, in the same order."""
    provider.script.answering = answer_of

    async def work() -> Any:
        team = builder(participants=[payer(provider, n) for n in range(3)]).build()
        return [repr(output.to_dict()) for output in (await durable(team).run("go")).get_outputs()]

    first = twice(url, work)
    assert "pay 2" in str(first)
    assert sorted(ledger()) == ["pay 0", "pay 1", "pay 2"]
    assert len(provider.calls) == 6


def test_concurrent_agents_whose_answers_come_in_another_order(provider: Provider, url: str) -> None:
    """A reader after them gets their answers in the same order, though the first one is late only once."""
    delays = [0.3]

    async def slow(n: int) -> str:
        """Pays after a while."""
        if n == 0 and delays:
            await asyncio.sleep(delays.pop())
        return pay(n)

    def answer(asked: Asked) -> Reply:
        reply = answer_of(asked)
        return reply._replace(calls=tuple(call._replace(name="slow") for call in reply.calls))

    provider.script.answering = answer

    async def work() -> Any:
        agents = [
            make_agent("chat", provider.base_url, [slow], name=f"payer{n}", instructions=f"pay {n}")
            for n in range(2)
        ]
        reader = make_agent("chat", provider.base_url, [], name="reader", instructions="read")
        start = make_agent("chat", provider.base_url, [], name="start", instructions="start")
        flow = WorkflowBuilder(start_executor=start).add_fan_out_edges(start, agents)
        flow = flow.add_fan_in_edges(agents, join).add_edge(join, reader)
        return [output.text for output in (await durable(flow.build()).run("go")).get_outputs()]

    assert "read" in twice(url, work)[-1]
    assert len(provider.calls) == 6
    assert sorted(ledger()) == ["pay 0", "pay 1"]


def test_a_stop_signal_in_concurrent_agents(provider: Provider, url: str) -> None:
    """The call of another agent ends first: the workflow would cancel it, and it would be in doubt."""

    async def risky(n: int) -> str:
        """Pays; one of two fails afterwards."""
        if n == 1:
            await asyncio.sleep(0.2)
        write(f"risky {n}")
        if n == 0:
            raise ConnectionError("the answer was lost")
        return f"did pay {n}"

    def answer(asked: Asked) -> Reply:
        reply = answer_of(asked)
        return reply._replace(calls=tuple(call._replace(name="risky") for call in reply.calls))

    provider.script.answering = answer

    async def work() -> Any:
        agents = [
            make_agent("chat", provider.base_url, [risky], name=f"payer{n}", instructions=f"pay {n}")
            for n in range(2)
        ]
        return await durable(ConcurrentBuilder(participants=agents).build()).run("go")

    with pytest.raises(holdfast.StepInDoubt, match="risky"):
        asyncio.run(in_run(url, work))
    assert sorted(ledger()) == ["risky 0", "risky 1"]
    assert len(list(holdfast.store(url).doubts("a"))) == 1


def test_a_handoff(provider: Provider, url: str) -> None:
    """The framework copies agents for a handoff, with their durable clients; the handoff itself happens again."""

    def answer(asked: Asked) -> Reply:
        own = next((said for role, said in asked.messages if role in {"system", "developer"}), "")
        if own.startswith("desk"):
            return Reply(text="", calls=(ToolCall("handoff_to_payer1", "{}", "h"),))
        return answer_of(asked)

    provider.script.answering = answer

    async def work() -> Any:
        desk = make_agent("chat", provider.base_url, [], name="desk", instructions="desk")
        last = payer(provider, 1)
        for agent in (desk, last):
            agent.require_per_service_call_history_persistence = True
        team = (
            HandoffBuilder(participants=[desk, last], termination_condition=lambda said: len(said) > 1)
            .with_start_agent(desk)
            .add_handoff(desk, [last])
            .build()
        )
        events = await durable(team).run("go")
        return [type(output).__name__ for output in events.get_outputs()]

    first = asyncio.run(in_run(f"{url}-alone", work))
    assert twice(url, work) == first
    assert ledger() == ["pay 1"] * 2
    assert len(provider.calls) == 6


@pytest.mark.parametrize("is_late", [False, True], ids=["of the agent", "of one run"])
def test_an_agent_as_a_tool(provider: Provider, url: str, is_late: bool) -> None:
    """Its own calls are steps inside of it: killed in the middle, it continues there."""
    attempts: list[int] = []

    def check(n: int) -> str:
        """Checks, and ends the first attempt."""
        attempts.append(n)
        if len(attempts) == 1:
            raise KeyboardInterrupt
        return "fine"

    def answer(asked: Asked) -> Reply:
        own = next((said for role, said in asked.messages if role in {"system", "developer"}), "")
        seen = sum(role == "tool" for role, _ in asked.messages)
        if own == "boss":
            done = Reply(text="all done")
            return done if seen else Reply(text="", calls=(ToolCall("worker", '{"task": "pay"}', "w"),))
        names = ("pay", "check")
        if seen == len(names):
            return Reply(text="paid")
        return Reply(text="", calls=(ToolCall(names[seen], '{"n": 1}', f"c{seen}"),))

    provider.script.answering = answer

    async def work() -> Any:
        worker = make_agent("chat", provider.base_url, [pay, check], name="worker", instructions="worker")
        given = [worker.as_tool()]
        boss = make_agent(
            "chat", provider.base_url, [] if is_late else given, name="boss", instructions="boss"
        )
        effects: Any = {} if is_late else {"check": "read"}
        durable(worker, effects={"check": "read"})
        return (await durable(boss, effects=effects).run("go", tools=given if is_late else None)).text

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(in_run(url, work))
    assert asyncio.run(in_run(url, work)) == "all done"
    assert ledger() == ["pay 1"]
    assert len(provider.calls) == 5
    assert attempts == [1, 1]
