"""Agents of Agent Framework in a run: what is a step, what is answered from the journal, and what leaves the framework."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from agent_framework import (
    Agent,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    Message,
    UserInputRequiredException,
    tool,
)
from pydantic import BaseModel
from tests.adapters.agent_framework.runs import in_run, ledger, twice
from tests.adapters.agent_framework.scripted import (
    EFFECTS,
    answer_calls,
    client_at,
    close_clients,
    make_agent,
    pay,
    write,
)
from tests.support.model_server import Asked, Provider, Reply, ToolCall
from tests.support.model_server.faults import status

import holdfast
from holdfast.adapters.agent_framework import durable
from holdfast.adapters.wire import framework_check


def answering(*calls: ToolCall, text: str = "ok") -> Callable[[Asked], Reply]:
    """Calls, then a text."""

    def answer(asked: Asked) -> Reply:
        is_over = any(role == "tool" for role, _ in asked.messages)
        return Reply(text=text) if is_over else Reply(text="", calls=calls)

    return answer


async def ran(agent: Agent, *given: Any, is_streamed: bool = False, **options: Any) -> Any:
    if not is_streamed:
        return await agent.run(*given, **options)
    stream = agent.run(*given, stream=True, **options)
    _ = [update async for update in stream]
    return await stream.get_final_response()


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_resumed_agent_asks_and_does_nothing_again(
    provider: Provider, url: str, kind: str, is_streamed: bool
) -> None:
    """Answers, tools, usage and the state that a tool left in its session come from the journal."""
    provider.script.answering = answer_calls
    seen: list[Any] = []

    async def work() -> Any:
        agent = durable(make_agent(kind, provider.base_url), effects=EFFECTS)
        session = agent.create_session()
        result = await ran(agent, "go", session=session, is_streamed=is_streamed)
        seen.append([message.to_dict() for message in result.messages])
        return result.text, session.state["seen"], result.usage_details["total_token_count"]

    text, place, tokens = twice(url, work)
    assert (text, place) == ("done with sea", "sea")
    assert tokens > 90
    assert seen[0] == seen[1]
    assert len(provider.calls) == 4
    assert sorted(ledger()) == ["note sea", "pay 0", "pay 1", "pay 7"]


def test_a_whole_answer_and_a_streamed_one_are_the_same_record(provider: Provider, url: str) -> None:
    """A run that began with ``run`` may be resumed with ``run(stream=True)``, and the other way round."""
    provider.script.answering = answer_calls
    ways = iter([True, False])

    async def work() -> Any:
        agent = durable(make_agent("chat", provider.base_url), effects=EFFECTS)
        return (await ran(agent, "go", is_streamed=next(ways))).text

    assert twice(url, work) == "done with sea"
    assert len(provider.calls) == 4


def charge(n: int) -> str:
    """Charges, and fails afterwards."""
    write(f"charge {n}")
    raise ConnectionError("the answer was lost")


async def late(n: int) -> str:
    """Pays after a while."""
    await asyncio.sleep(0.1)
    write(f"late {n}")
    return "late"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_stop_signal_leaves_the_agent(provider: Provider, url: str, is_streamed: bool) -> None:
    """A ``once`` tool that fails is in doubt; the framework would cancel the call beside it, which ends first.

    Planted: without waiting, ``late`` is in doubt as well.
    """
    calls = (ToolCall("charge", '{"n": 1}', "c"), ToolCall("late", '{"n": 2}', "d"))
    provider.script.answering = lambda asked: Reply(text="", calls=calls)

    async def work() -> Any:
        agent = durable(make_agent("chat", provider.base_url, [charge, late]))
        return await ran(agent, "go", is_streamed=is_streamed)

    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt, match="charge"):
            asyncio.run(in_run(url, work))
    assert sorted(ledger()) == ["charge 1", "late 2"]
    assert [doubt.step for doubt in holdfast.store(url).doubts("a")] == ["charge"]
    assert len(provider.calls) == 1


def test_a_failed_read_is_told_to_the_model_and_replayed(provider: Provider, url: str) -> None:
    """The model gets the same message from the journal as from the tool."""
    provider.script.answering = answering(ToolCall("charge", '{"n": 1}', "c"))

    async def work() -> Any:
        agent = durable(make_agent("chat", provider.base_url, [charge]), effects={"charge": "read"})
        return (await agent.run("go")).text

    assert twice(url, work) == "ok"
    assert ledger() == ["charge 1"]
    assert len(provider.calls) == 2


def test_arguments_that_the_framework_refuses_are_no_doubt(provider: Provider, url: str) -> None:
    """The tool was not called: the model is told, in every attempt the same."""
    provider.script.answering = answering(ToolCall("pay", '{"n": "many"}', "c"))

    async def work() -> Any:
        return (await durable(make_agent("chat", provider.base_url, [pay])).run("go")).text

    assert twice(url, work) == "ok"
    assert ledger() == []
    assert "Argument parsing failed" in str(provider.calls[1].body)
    assert len(provider.calls) == 2


def test_a_changed_prompt_stops_the_run(provider: Provider, url: str) -> None:
    """Another request at a recorded place is ``Diverged`` at once."""
    provider.script.answering = answer_calls

    async def work(said: str) -> Any:
        return await durable(make_agent("chat", provider.base_url), effects=EFFECTS).run(said)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_run(url, lambda: work("go"), fails=True))
    with pytest.raises(holdfast.Diverged):
        asyncio.run(in_run(url, lambda: work("go elsewhere")))
    assert len(provider.calls) == 4


def test_outside_of_a_run_the_agent_is_as_before(provider: Provider) -> None:
    """Nothing is journaled, and each run of the agent acts."""
    provider.script.answering = answer_calls

    async def work() -> list[str]:
        agent = durable(make_agent("chat", provider.base_url), effects=EFFECTS)
        try:
            return [(await ran(agent, "go", is_streamed=way)).text for way in (False, True)]
        finally:
            await close_clients()

    assert asyncio.run(work()) == ["done with sea"] * 2
    assert len(provider.calls) == 8


def test_a_call_that_no_run_sees_is_refused(provider: Provider, url: str) -> None:
    """In a thread of one's own, the agent is not in the run that this process holds."""
    raised: list[BaseException] = []

    def elsewhere(agent: Agent) -> None:
        try:
            asyncio.run(agent.run("go"))
        except BaseException as error:
            raised.append(error)

    async def work() -> None:
        agent = durable(make_agent("chat", provider.base_url))
        thread = Thread(target=elsewhere, args=(agent,))
        thread.start()
        await asyncio.to_thread(thread.join)

    asyncio.run(in_run(url, work))
    assert isinstance(raised[0], holdfast.NoCurrentRun)
    assert provider.calls == []


def test_what_is_refused(provider: Provider) -> None:
    """An effect of an unknown tool, a client of somebody else, what is no agent, and an unknown way to ask."""
    with pytest.raises(holdfast.Misuse, match="serach"):
        durable(make_agent("chat", provider.base_url), effects={"serach": "read"})
    with pytest.raises(holdfast.Misuse, match="no agent"):
        durable(object())
    with pytest.raises(holdfast.BadOption, match="nobody"):
        durable(make_agent("chat", provider.base_url), approvals="nobody")  # type: ignore[arg-type]
    agent = make_agent("chat", provider.base_url)
    agent.client = object()
    with pytest.raises(holdfast.Misuse, match="BaseChatClient"):
        durable(agent)


@holdfast.tool(effect="once")
def reserve(n: int, *, idempotency_key: str = holdfast.KEY) -> str:
    """Reserves."""
    write(f"reserve {n} {idempotency_key}")
    return f"did reserve {n}"


@pytest.mark.parametrize("given", [reserve, tool(reserve)], ids=["bare", "decorated"])
def test_a_tool_that_is_a_step_keeps_its_declaration(provider: Provider, url: str, given: Any) -> None:
    """A ``@holdfast.tool`` among the tools is one step, with its own key, which the model does not see."""
    provider.script.answering = answering(ToolCall("reserve", '{"n": 1}', "c"))

    async def work() -> Any:
        return (await durable(make_agent("chat", provider.base_url, [given])).run("go")).text

    assert twice(url, work) == "ok"
    (line,) = ledger()
    assert len(line.removeprefix("reserve 1 ")) == 32
    assert "idempotency_key" not in str(provider.calls[0].body["tools"])
    names = [event.name for event in holdfast.store(url).events("a") if event.kind == "step.started"]
    assert names.count("reserve") == 1


class City(BaseModel):
    """A city."""

    name: str


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_structured_output(provider: Provider, url: str, kind: str, is_streamed: bool) -> None:
    """The value is parsed from the recorded answer."""
    provider.script.answering = lambda asked: Reply(text='{"name": "Lisbon"}')

    async def work() -> Any:
        agent = durable(make_agent(kind, provider.base_url, []))
        return (await ran(agent, "Which?", options={"response_format": City}, is_streamed=is_streamed)).value

    assert twice(url, work) == City(name="Lisbon")
    assert len(provider.calls) == 1


def picture() -> list[Content]:
    """Takes a picture."""
    write("picture")
    return [Content.from_text("here"), Content.from_data(b"\x89PNG", "image/png")]


def test_a_result_with_an_image(provider: Provider, url: str) -> None:
    """Contents of all kinds are the same from the journal."""
    provider.script.answering = answering(ToolCall("picture", "{}", "c"))

    async def work() -> Any:
        result = await durable(make_agent("responses", provider.base_url, [picture])).run("go")
        return [
            item.to_dict()
            for message in result.messages
            for part in message.contents
            for item in part.items or ()
        ]

    first, second = twice(url, work), asyncio.run(in_run(f"{url}-2", work))
    assert first == second
    assert [item["type"] for item in first] == ["text", "data"]
    assert ledger() == ["picture"] * 2


def test_a_session_and_its_history(provider: Provider, url: str) -> None:
    """Two turns of one session: the second request has the first answer, from the journal or not."""
    provider.script.answering = lambda asked: Reply(text=f"said {len(asked.messages)}")

    async def work() -> Any:
        agent = durable(make_agent("chat", provider.base_url, []))
        session = agent.create_session()
        return [(await agent.run(said, session=session)).text for said in ("one", "two")]

    assert twice(url, work) == ["said 1", "said 3"]
    assert len(provider.calls) == 2


class Counting(FunctionMiddleware):
    """Counts calls."""

    def __init__(self) -> None:
        self.count = 0

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        self.count += 1
        await call_next()


def test_other_middleware_is_called_in_every_attempt(provider: Provider, url: str) -> None:
    """It lies outside of the steps, also where it is given to one run of the agent only."""
    provider.script.answering = answering(ToolCall("pay", '{"n": 1}', "c"))
    counting = [Counting(), Counting()]

    async def work() -> Any:
        agent = durable(make_agent("chat", provider.base_url, [pay], middleware=[counting[0]]))
        return (await agent.run("go", middleware=[counting[1]])).text

    assert twice(url, work) == "ok"
    assert [one.count for one in counting] == [2, 2]
    assert ledger() == ["pay 1"]


def test_a_tool_that_asks_the_user(provider: Provider, url: str) -> None:
    """What a tool raises to ask for input is an outcome like any other."""

    def ask() -> str:
        """Asks."""
        write("ask")
        raise UserInputRequiredException(
            [Content("oauth_consent_request", consent_link="here", user_input_request=True)]
        )

    provider.script.answering = answering(ToolCall("ask", "{}", "c"))

    async def work() -> Any:
        result = await durable(make_agent("chat", provider.base_url, [ask])).run("go")
        return [request.consent_link for request in result.user_input_requests]

    assert twice(url, work) == ["here"]
    assert ledger() == ["ask"]


def test_a_tool_that_adds_tools(provider: Provider, url: str) -> None:
    """Declared ``read``, it is called again in a replay, to give the agent the same tools."""

    def load(ctx: FunctionInvocationContext) -> str:
        """Loads the tool that pays."""
        ctx.add_tools(tool(pay))
        return "loaded"

    def answer(asked: Asked) -> Reply:
        seen = [said for role, said in asked.messages if role == "tool"]
        if len(seen) == 2:
            return Reply(text="ok")
        name, given = ("pay", '{"n": 1}') if seen else ("load", "{}")
        return Reply(text="", calls=(ToolCall(name, given, f"c{len(seen)}"),))

    provider.script.answering = answer

    async def work() -> Any:
        agent = durable(make_agent("chat", provider.base_url, [load]), effects={"load": "read"})
        return (await agent.run("go")).text

    with pytest.warns(Warning, match="experimental"):
        assert twice(url, work) == "ok"
    assert ledger() == ["pay 1"]
    assert len(provider.calls) == 3


def test_an_outage_is_waited_for(provider: Provider, url: str) -> None:
    """The framework's own exception hides the status of the provider's: the run waits all the same."""
    provider.script.answering = lambda asked: Reply(text="ok")
    provider.script.faults[0] = status(503)

    async def work() -> Any:
        return (await durable(make_agent("chat", provider.base_url, [])).run("go")).text

    assert asyncio.run(in_run(url, work)) == "ok"
    assert len(provider.calls) == 2


def test_a_durable_client_for_a_program_of_ones_own(provider: Provider, url: str) -> None:
    """``durable(client)`` is a copy; its model calls and the tools it calls are steps."""
    provider.script.answering = answering(ToolCall("pay", '{"n": 1}', "c"))

    async def work() -> Any:
        client = client_at(provider.base_url)
        made = durable(client)
        assert made is not client
        assert durable(made) is made
        return (await made.get_response([Message("user", ["go"])], options={"tools": [pay]})).text

    assert twice(url, work) == "ok"
    assert ledger() == ["pay 1"]
    assert len(provider.calls) == 2


def test_a_hosted_tool_is_part_of_the_answer(provider: Provider, url: str) -> None:
    """What the provider executes is in its answer; the declaration is part of the request."""
    provider.script.answering = lambda asked: Reply(text="ok")

    async def work() -> Any:
        client = client_at(provider.base_url, "responses")
        agent = Agent(client, tools=[client.get_web_search_tool()], default_options={"store": False})
        return (await durable(agent).run("go")).text

    assert twice(url, work) == "ok"
    assert "web_search" in str(provider.calls[0].body["tools"])
    assert len(provider.calls) == 1


def test_a_wrapped_client_alone_is_said_once(
    provider: Provider, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tools run again in each attempt: a warning names the adapter."""
    monkeypatch.setattr(framework_check, "_said", set())
    monkeypatch.delitem(sys.modules, "holdfast.adapters.agent_framework")
    provider.script.answering = answer_calls

    async def work() -> Any:
        agent = make_agent("chat", provider.base_url)
        agent.client.client = holdfast.wrap(agent.client.client)
        await agent.run("go")

    asyncio.run(in_run(url, work))
    said = [record.getMessage() for record in caplog.records if "tools run again" in record.getMessage()]
    assert len(said) == 1
    assert "holdfast.adapters.agent_framework" in said[0]


def test_the_agent_of_one_process_in_several_runs(provider: Provider, tmp_path: Path) -> None:
    """One durable agent serves runs that are held at the same time; each has its own journal."""
    provider.script.answering = answering(ToolCall("pay", '{"n": 1}', "c"))
    url = str(tmp_path / "runs.db")

    async def serve(agent: Agent, name: str) -> str:
        async with holdfast.run(name, store=url):
            said = await agent.run("go")
        return str(said.text)

    async def work() -> list[str]:
        agent = durable(make_agent("chat", provider.base_url, [pay]))
        try:
            return await asyncio.gather(*(serve(agent, f"r{n}") for n in range(3)))
        finally:
            await close_clients()

    assert asyncio.run(work()) == ["ok"] * 3
    assert asyncio.run(work()) == ["ok"] * 3
    assert ledger() == ["pay 1"] * 3
    assert len(provider.calls) == 6
