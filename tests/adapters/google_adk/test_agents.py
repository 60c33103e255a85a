"""Agents of Google ADK in a run: what is a step, what is answered from the journal, and what leaves the framework."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import Agent, ParallelAgent, SequentialAgent
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, LongRunningFunctionTool, ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.workflow import START, JoinNode, Workflow
from google.genai import types
from tests.adapters.google_adk.scripted import (
    EFFECTS,
    answer_calls,
    answer_of,
    answer_team,
    calls_of,
    config,
    events_of,
    make_agent,
    message,
    model_at,
    note,
    pay,
    runner_at,
    said_in,
    started,
    write,
)
from tests.support.model_server import Asked, Provider, Reply

import holdfast
from holdfast.adapters.google_adk import durable
from holdfast.adapters.wire import framework_check


@pytest.fixture(autouse=True)
def _in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ledger() -> list[str]:
    return Path("ledger").read_text().splitlines() if Path("ledger").exists() else []


async def in_run(url: str, work: Callable[[], Awaitable[Any]], *, fails: bool = False) -> Any:
    async with holdfast.run("a", store=url):
        made = await work()
        if fails:
            raise ZeroDivisionError
        return made


def twice(url: str, work: Callable[[], Awaitable[Any]]) -> Any:
    """What the work gives in a run that failed after it and is resumed."""
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_run(url, work, fails=True))
    return asyncio.run(in_run(url, work))


def answer_with(*calls: tuple[str, dict[str, Any]], end: str = "ok") -> Callable[[Asked], Reply]:
    """A model that wants these calls at once, and is done with their results."""
    return lambda asked: (
        Reply(text=end) if any(role == "tool" for role, _ in asked.messages) else calls_of(0, calls)
    )


def agent_at(provider: Provider, *tools: Any, **options: Any) -> Agent:
    return Agent(name="desk", model=model_at(provider.url), tools=list(tools), **options)


@pytest.mark.parametrize("ways", [("whole", "whole"), ("streamed", "streamed"), ("whole", "streamed")])
def test_a_resumed_agent_asks_and_does_nothing_again(
    provider: Provider, url: str, ways: tuple[str, str]
) -> None:
    """Answers, tools and the state that a tool left come from the journal; also if one attempt streams."""
    provider.script.answering = answer_calls
    left = list(ways)

    async def work() -> Any:
        runner = durable(runner_at(make_agent("calls", provider.url)), effects=EFFECTS)
        events = await events_of(runner, way=left.pop(0))
        session = await runner.session_service.get_session(app_name="app", user_id="u", session_id="s")
        calls = [call.id for event in events if not event.partial for call in event.get_function_calls()]
        return said_in(events[-1]), session.state, calls

    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_run(url, work, fails=True))
    said, state, calls = asyncio.run(in_run(url, work))
    assert (said, state, len(set(calls))) == ("done with sea", {"seen": "sea"}, 5)
    assert len(provider.calls) == 4
    assert sorted(ledger()) == ["note sea", "pay 0", "pay 1", "pay 7"]


def test_ids_of_calls_are_the_same_in_each_attempt(provider: Provider, url: str) -> None:
    """ADK gives a call without an id a random one; the journal keeps it, and the model does not see it."""
    provider.script.answering = answer_calls
    seen: list[list[str]] = []

    async def work() -> Any:
        runner = durable(runner_at(make_agent("calls", provider.url)), effects=EFFECTS)
        events = await events_of(runner)
        seen.append([call.id for event in events for call in event.get_function_calls()])

    twice(url, work)
    assert seen[0] == seen[1]
    assert all(one.startswith("adk-") for one in seen[0])
    assert "adk-" not in str([call.body for call in provider.calls])


def test_a_stream_is_replayed_as_a_stream(provider: Provider, url: str) -> None:
    """A replayed answer has a partial event before its whole one, as a live one."""
    provider.script.answering = lambda asked: Reply(text="one two three")
    partials: list[str] = []

    async def work() -> Any:
        events = await events_of(durable(runner_at(agent_at(provider))), way="streamed")
        partials.append("".join(said_in(event) for event in events if event.partial))
        return said_in(events[-1])

    assert twice(url, work) == "one two three"
    assert partials == ["one two three"] * 2
    assert len(provider.calls) == 1


def test_agents_of_all_kinds(provider: Provider, url: str) -> None:
    """Agents as tools, parallel agents and loops: each call is a step, and equal calls of parallel agents are told apart."""
    provider.script.answering = answer_team

    async def work() -> Any:
        runner = durable(runner_at(make_agent("team", provider.url)), effects={"note": "idempotent"})
        return sorted(filter(None, map(said_in, await events_of(runner))))

    assert twice(url, work) == ["desk is done after 1", "left paid", "right paid"]
    assert len(provider.calls) == 13
    assert sorted(ledger()) == ["note end", *(f"pay {n}" for n in (1, 10, 11, 2, 20, 21))]


def test_the_order_of_parallel_agents_is_the_same_in_each_attempt(provider: Provider, url: str) -> None:
    """The agent after them sees one after the other: as they came would be another request in each attempt."""
    slow_one = ["left"]

    async def wait(who: str) -> str:
        """Waits."""
        await asyncio.sleep(0.1 if who in slow_one else 0)
        return f"{who} waited"

    def answer(asked: Asked) -> Reply:
        said = " ".join(text for _, text in asked.messages)
        me = next(one for one in ("left", "right", "last") if f"You are {one}." in said)
        has_called = any(role == "tool" for role, _ in asked.messages)
        return (
            calls_of(0, [("wait", {"who": me})])
            if me != "last" and not has_called
            else Reply(text=f"{me} is done")
        )

    provider.script.answering = answer

    async def work() -> Any:
        left, right, last = (
            Agent(name=name, model=model_at(provider.url), instruction=f"You are {name}.", tools=[wait])
            for name in ("left", "right", "last")
        )
        both = ParallelAgent(name="both", sub_agents=[left, right])
        runner = durable(
            runner_at(SequentialAgent(name="team", sub_agents=[both, last])), effects={"wait": "read"}
        )
        first = await answer_of(runner)
        return first, await answer_of(runner, "again")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_run(url, work, fails=True))
    slow_one[:] = ["right"]
    assert asyncio.run(in_run(url, work)) == ("last is done", "last is done")
    assert len(provider.calls) == 8


def test_a_workflow_of_nodes(provider: Provider, url: str) -> None:
    """Agents that are nodes of a graph, in parallel and joined."""
    provider.script.answering = answer_team

    async def work() -> Any:
        left, right, last = (
            Agent(name=name, model=model_at(provider.url), instruction=f"You are {name}.", tools=tools)
            for name, tools in [("left", [pay]), ("right", [pay]), ("last", [note, exit_loop])]
        )
        join = JoinNode(name="join")
        edges = [(START, left), (START, right), (left, join), (right, join), (join, last)]
        runner = Runner(
            app_name="app",
            node=Workflow(name="graph", edges=edges),
            session_service=InMemorySessionService(),
        )
        return sorted(filter(None, map(said_in, await events_of(durable(runner)))))

    assert twice(url, work) == ["left paid", "right paid"]
    assert len(provider.calls) == 7
    assert sorted(ledger()) == ["note end", *(f"pay {n}" for n in (10, 11, 20, 21))]


def run_on(store: Any, provider: Provider, run: str) -> Any:
    async def work() -> Any:
        async with holdfast.run(run, store=store):
            return await answer_of(durable(runner_at(make_agent("calls", provider.url)), effects=EFFECTS))

    return asyncio.run(work())


def first_answer(store: Any) -> str:
    """The place behind the first answer of the model."""
    return f"a@#{next(event.seq for event in store.events('a') if event.kind == 'step.finished')}"


def test_a_fork(provider: Provider, url: str) -> None:
    """The unchanged program builds its session again: the model goes on from the place, and effects are answered."""
    provider.script.answering = answer_calls
    store = holdfast.store(url)
    assert run_on(store, provider, "a") == "done with sea"
    store.fork(first_answer(store), as_="b")
    assert run_on(store, provider, "b") == "done with sea"
    assert len(provider.calls) == 4 + 3
    assert sorted(ledger()) == ["note sea", "pay 0", "pay 1", "pay 7"]


def test_a_rewind(provider: Provider, url: str) -> None:
    """The same for a run that is moved back; calls of other ids are the same effects."""
    provider.script.answering = answer_calls
    store = holdfast.store(url)
    assert run_on(store, provider, "a") == "done with sea"
    store.rewind(first_answer(store))
    assert run_on(store, provider, "a") == "done with sea"
    assert len(provider.calls) == 4 + 3
    assert sorted(ledger()) == ["note sea", "pay 0", "pay 1", "pay 7"]


def test_agents_that_transfer(provider: Provider, url: str) -> None:
    """A transfer steers the agents alone, and happens again; the calls of both agents do not."""

    def answer(asked: Asked) -> Reply:
        said = " ".join(text for _, text in asked.messages)
        if "did pay" in said:
            return Reply(text="all paid")
        if "You are payer." in said:
            return calls_of(1, [("pay", {"n": 1})])
        return calls_of(0, [("transfer_to_agent", {"agent_name": "payer"})])

    provider.script.answering = answer

    async def work() -> Any:
        payer = Agent(
            name="payer",
            description="Pays.",
            model=model_at(provider.url),
            instruction="You are payer.",
            tools=[pay],
        )
        return await answer_of(durable(runner_at(agent_at(provider, sub_agents=[payer]))))

    assert twice(url, work) == "all paid"
    assert len(provider.calls) == 3
    assert ledger() == ["pay 1"]


def charge(n: int) -> str:
    """Charges, and fails afterwards."""
    write(f"charge {n}")
    raise ConnectionError("the answer was lost")


async def slow(n: int) -> str:
    """Pays, later than others."""
    await asyncio.sleep(0.05)
    write(f"slow {n}")
    return f"did slow {n}"


def test_a_stop_signal_leaves_the_runner(provider: Provider, url: str) -> None:
    """A ``once`` tool that fails is in doubt; a call beside it finishes first, and no model is asked."""
    provider.script.answering = answer_with(("charge", {"n": 1}), ("slow", {"n": 2}))

    async def work() -> Any:
        return await answer_of(durable(runner_at(agent_at(provider, charge, slow))))

    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt, match="charge"):
            asyncio.run(in_run(url, work))
    assert sorted(ledger()) == ["charge 1", "slow 2"]
    assert len(provider.calls) == 1


def test_a_stop_signal_leaves_a_blocking_runner(provider: Provider, url: str) -> None:
    """``Runner.run`` works in a thread, and would hide what is no ``Exception``."""
    provider.script.answering = answer_with(("charge", {"n": 1}))
    runner = durable(runner_at(agent_at(provider, charge)))
    with pytest.raises(holdfast.StepInDoubt, match="charge"), holdfast.run("a", store=url):
        runner.session_service.create_session_sync(app_name="app", user_id="u", session_id="s")
        list(runner.run(user_id="u", session_id="s", new_message=message("go")))


def test_a_blocking_runner_is_resumed(provider: Provider, url: str) -> None:
    """The thread of ``Runner.run`` is in the run; a changed prompt is found there, too."""
    provider.script.answering = answer_calls

    def work(said: str, *, fails: bool) -> Any:
        with holdfast.run("a", store=url):
            runner = durable(runner_at(make_agent("calls", provider.url)), effects=EFFECTS)
            runner.session_service.create_session_sync(app_name="app", user_id="u", session_id="s")
            events = list(runner.run(user_id="u", session_id="s", new_message=message(said)))
            if fails:
                raise ZeroDivisionError
            return said_in(events[-1])

    with pytest.raises(ZeroDivisionError):
        work("go", fails=True)
    with pytest.raises(holdfast.Diverged):
        work("go elsewhere", fails=True)
    assert work("go", fails=False) == "done with sea"
    assert len(provider.calls) == 4


def test_a_stop_signal_leaves_parallel_agents(provider: Provider, url: str) -> None:
    """The program gets the stop-signal, though ADK would cancel it where it waits with an event in its hand."""

    def answer(asked: Asked) -> Reply:
        said = " ".join(text for _, text in asked.messages)
        results = [text for role, text in asked.messages if role == "tool"]
        if "You are a." in said:
            return calls_of(len(results), [("charge", {"n": 1})])
        return calls_of(len(results), [("slow", {"n": len(results)})])

    provider.script.answering = answer

    async def work() -> Any:
        agents = [
            Agent(
                name=name, model=model_at(provider.url), instruction=f"You are {name}.", tools=[charge, slow]
            )
            for name in "ab"
        ]
        runner = durable(runner_at(ParallelAgent(name="both", sub_agents=agents)))
        await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
        async for _ in started(runner):
            await asyncio.sleep(0.05)

    with pytest.raises(holdfast.StepInDoubt, match="charge"):
        asyncio.run(in_run(url, work))
    assert ledger().count("charge 1") == 1
    assert len(ledger()) == len(set(ledger()))


def test_a_swallowed_stop_ends_the_run(provider: Provider, url: str) -> None:
    """A callback that turns errors into results does not hide a stop: no model is asked after it."""
    provider.script.answering = answer_with(("clerk", {"request": "pay"}))

    def answer(asked: Asked) -> Reply:
        if "You are clerk." in " ".join(text for _, text in asked.messages):
            return calls_of(0, [("charge", {"n": 1})])
        return answer_with(("clerk", {"request": "pay"}))(asked)

    provider.script.answering = answer

    async def work() -> Any:
        clerk = Agent(
            name="clerk", model=model_at(provider.url), instruction="You are clerk.", tools=[charge]
        )
        desk = agent_at(
            provider, AgentTool(clerk), on_tool_error_callback=lambda *_, **__: {"error": "it failed"}
        )
        return await answer_of(durable(runner_at(desk)))

    with pytest.raises(holdfast.StepInDoubt, match="charge"):
        asyncio.run(in_run(url, work))
    assert len(provider.calls) == 2


def test_a_failed_read_is_replayed(provider: Provider, url: str) -> None:
    """The program's callback gets the same error from the journal as from the tool."""
    provider.script.answering = answer_with(("charge", {"n": 1}), end="gave up")
    errors: list[str] = []

    def tell(**given: Any) -> dict[str, str]:
        errors.append(f"{type(given['error']).__name__}: {given['error']}")
        return {"error": "it failed"}

    async def work() -> Any:
        agent = agent_at(provider, charge, on_tool_error_callback=tell)
        return await answer_of(durable(runner_at(agent), effects={"charge": "read"}))

    assert twice(url, work) == "gave up"
    assert errors == ["ConnectionError: the answer was lost"] * 2
    assert ledger() == ["charge 1"]
    assert len(provider.calls) == 2


def test_a_changed_prompt_stops_the_run(provider: Provider, url: str) -> None:
    """Another request at a recorded place is ``Diverged`` at once."""
    provider.script.answering = answer_calls

    async def work(said: str) -> Any:
        return await answer_of(durable(runner_at(make_agent("calls", provider.url)), effects=EFFECTS), said)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_run(url, lambda: work("go"), fails=True))
    with pytest.raises(holdfast.Diverged):
        asyncio.run(in_run(url, lambda: work("go elsewhere")))
    assert len(provider.calls) == 4


def test_outside_of_a_run_the_runner_is_as_before(provider: Provider) -> None:
    """Nothing is journaled, and each call of the runner acts; the given runner and its objects are unchanged."""
    provider.script.answering = answer_calls
    agent = make_agent("calls", provider.url)
    given = runner_at(agent)
    runner = durable(given, effects=EFFECTS)

    async def work() -> list[str]:
        return [await answer_of(runner, session=name) for name in "ab"]

    assert asyncio.run(work()) == ["done with sea"] * 2
    assert len(provider.calls) == 8
    assert [plugin.name for plugin in given.plugin_manager.plugins] == []
    assert "canonical_model_async" not in vars(agent)
    assert "generate_content_async" not in vars(agent.model)


def test_objects_are_released(provider: Provider, url: str) -> None:
    """After a call in a run, agents, models and tools have their own methods again."""
    provider.script.answering = answer_with(("pay", {"n": 1}))
    tool = FunctionTool(pay)
    agent = agent_at(provider, tool)
    asyncio.run(in_run(url, lambda: answer_of(durable(runner_at(agent)))))
    assert ledger() == ["pay 1"]
    for thing, name in [(agent, "canonical_model_async"), (agent.model, "connect"), (tool, "run_async")]:
        assert name not in vars(thing)


def test_what_is_refused(provider: Provider, url: str) -> None:
    """An effect of an unknown tool, what is no runner, and a live session in a run."""
    runner = runner_at(make_agent("calls", provider.url))
    with pytest.raises(holdfast.Misuse, match="serach"):
        durable(runner, effects={"serach": "read"})
    with pytest.raises(holdfast.Misuse, match="no runner"):
        durable(make_agent("calls", provider.url))

    async def work() -> Any:
        return [event async for event in durable(runner).run_live(user_id="u", session_id="s")]

    with pytest.raises(holdfast.Misuse, match="live session"):
        asyncio.run(in_run(url, work))


@holdfast.tool(effect="once")
def reserve(n: int, *, idempotency_key: str = holdfast.KEY) -> str:
    """Reserves."""
    write(f"reserve {n} {idempotency_key}")
    return f"did reserve {n}"


def test_a_tool_that_is_a_step_keeps_its_declaration(provider: Provider, url: str) -> None:
    """A ``@holdfast.tool`` among the tools is one step, with its own key, which the model does not see."""
    provider.script.answering = answer_with(("reserve", {"n": 1}))

    async def work() -> Any:
        return await answer_of(durable(runner_at(agent_at(provider, reserve))))

    assert twice(url, work) == "ok"
    assert len(ledger()) == 1
    assert len(ledger()[0].split()) == 3
    assert "idempotency_key" not in str(provider.calls[0].body)


def test_the_programs_callbacks_run(provider: Provider, url: str) -> None:
    """Callbacks before and after models and tools run in each attempt, around recorded calls, too."""
    provider.script.answering = answer_with(("pay", {"n": 1}))
    heard: list[str] = []

    def hear(name: str) -> Callable[..., None]:
        return lambda *_, **__: heard.append(name)

    async def work() -> Any:
        agent = agent_at(
            provider,
            pay,
            before_model_callback=hear("before model"),
            after_model_callback=hear("after model"),
            before_tool_callback=hear("before tool"),
            after_tool_callback=hear("after tool"),
        )
        return await answer_of(durable(runner_at(agent)))

    assert twice(url, work) == "ok"
    model = ["before model", "after model"]
    assert heard == [*model, "before tool", "after tool", *model] * 2


def test_calls_with_ids_of_adk_are_not_repeated(provider: Provider, url: str) -> None:
    """An answer of a callback is no model call, so its calls get other ids in each attempt: their arguments say which they are."""
    asked: list[int] = []

    def canned(callback_context: Any, llm_request: Any) -> Any:
        if any(part.function_response for content in llm_request.contents for part in content.parts):
            return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="ok")]))
        asked.append(1)
        call = types.FunctionCall(name="pay", args={"n": 1})
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(function_call=call)]))

    async def work() -> Any:
        return await answer_of(durable(runner_at(agent_at(provider, pay, before_model_callback=canned))))

    assert twice(url, work) == "ok"
    assert asked == [1, 1]
    assert ledger() == ["pay 1"]


def test_equal_calls_of_one_turn_are_two_calls(provider: Provider, url: str) -> None:
    """A model that pays the same twice at once pays twice, in one attempt."""
    provider.script.answering = answer_with(("pay", {"n": 1}), ("pay", {"n": 1}))
    assert twice(url, lambda: answer_of(durable(runner_at(agent_at(provider, pay))))) == "ok"
    assert ledger() == ["pay 1"] * 2


def picture(tool_context: ToolContext) -> types.Part:
    """Draws, and steers its agent."""
    write("picture")
    tool_context.actions.skip_summarization = True
    tool_context.state["drawn"] = {"n": 1}
    return types.Part(inline_data=types.Blob(data=b"\xff\x00", mime_type="image/png"))


def test_media_and_actions_of_a_tool_are_replayed(provider: Provider, url: str) -> None:
    """A part with bytes, the session's state and what steers the agent come from the journal."""
    provider.script.answering = answer_with(("picture", {}))

    async def work() -> Any:
        runner = durable(runner_at(agent_at(provider, picture)))
        events = await events_of(runner)
        session = await runner.session_service.get_session(app_name="app", user_id="u", session_id="s")
        (response,) = events[-1].get_function_responses()
        return response.parts[0].inline_data.data, session.state, events[-1].actions.skip_summarization

    assert twice(url, work) == (b"\xff\x00", {"drawn": {"n": 1}}, True)
    assert ledger() == ["picture"]
    assert len(provider.calls) == 1


def test_a_confirmed_tool(provider: Provider, url: str) -> None:
    """ADK asks before a tool with ``require_confirmation``; the confirmed call is a step as any other."""
    provider.script.answering = answer_with(("pay", {"n": 1}))

    async def work() -> Any:
        runner = durable(runner_at(agent_at(provider, FunctionTool(pay, require_confirmation=True))))
        events = await events_of(runner)
        (asked,) = [
            call
            for event in events
            for call in event.get_function_calls()
            if call.name == "adk_request_confirmation"
        ]
        assert ledger() in ([], ["pay 1"])
        confirmed = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
        content = types.Content(role="user", parts=[types.Part(function_response=confirmed)])
        return said_in([event async for event in started(runner, content)][-1])

    assert twice(url, work) == "ok"
    assert ledger() == ["pay 1"]


def test_a_long_running_tool(provider: Provider, url: str) -> None:
    """What it returns at once is its outcome; the rest comes with a later message, as in any program of ADK."""
    provider.script.answering = answer_with(("order", {"n": 1}))

    def order(n: int) -> dict[str, str]:
        """Orders."""
        write(f"order {n}")
        return {"status": "pending"}

    async def work() -> Any:
        runner = durable(runner_at(agent_at(provider, LongRunningFunctionTool(order))))
        events = await events_of(runner)
        (call,) = [call for event in events for call in event.get_function_calls()]
        done = types.FunctionResponse(id=call.id, name="order", response={"status": "done"})
        content = types.Content(role="user", parts=[types.Part(function_response=done)])
        return said_in([event async for event in started(runner, content)][-1])

    assert twice(url, work) == "ok"
    assert ledger() == ["order 1"]
    bodies = [str(call.body) for call in provider.calls]
    assert len(bodies) == len(set(bodies))


def test_two_runners_at_once(provider: Provider, url: str) -> None:
    """Two conversations of one run, in parallel, each with its own sequence."""
    provider.script.answering = answer_calls

    async def work() -> Any:
        runner = durable(runner_at(make_agent("calls", provider.url)), effects=EFFECTS)
        return await asyncio.gather(*(answer_of(runner, f"go {n}", session=f"s{n}") for n in range(2)))

    assert twice(url, work) == ["done with sea"] * 2
    assert len(provider.calls) == 8


def test_a_wrapped_client_without_the_adapter_is_said_once(
    provider: Provider, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The tools of a plain runner run again in each attempt."""
    monkeypatch.delitem(sys.modules, "holdfast.adapters.google_adk")
    monkeypatch.setattr(framework_check, "_said", set())
    provider.script.answering = answer_with(("pay", {"n": 1}))

    async def work() -> Any:
        from google.genai import Client

        model = model_at(provider.url)
        model.client = holdfast.wrap(
            Client(api_key="none", http_options=types.HttpOptions(base_url=provider.url))
        )
        runner = runner_at(Agent(name="desk", model=model, tools=[pay]))
        return await answer_of(runner)

    assert twice(url, work) == "ok"
    said = [record.getMessage() for record in caplog.records if "wrapped client" in record.getMessage()]
    assert len(said) == 1
    assert "holdfast.adapters.google_adk holds both" in said[0]
    assert ledger() == ["pay 1"] * 2


def test_streams_end_where_the_program_ends_them(provider: Provider, url: str) -> None:
    """A program that leaves the events early leaves nothing open, and is resumed."""
    provider.script.answering = answer_calls

    async def work() -> Any:
        runner = durable(runner_at(make_agent("calls", provider.url)), effects=EFFECTS)
        await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
        events = runner.run_async(
            user_id="u", session_id="s", new_message=message("go"), run_config=config("whole")
        )
        async for event in events:
            if event.get_function_responses():
                break
        await events.aclose()
        return [said for said in ledger() if said]

    assert twice(url, work) == []
    assert len(provider.calls) == 1
