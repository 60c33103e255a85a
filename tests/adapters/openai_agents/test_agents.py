"""What durable agents do: in every manner of running, with every kind of tool, and when something goes wrong."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelProvider,
    ModelSettings,
    RunConfig,
    RunHooks,
    Runner,
    SQLiteSession,
    ToolOutputText,
    UserError,
    function_tool,
    handoff,
)
from tests.adapters.openai_agents.scripted import Scripted, call, results, say

import holdfast
from holdfast.adapters.openai_agents import durable

DONE: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_done() -> Iterator[None]:
    DONE.clear()
    yield
    DONE.clear()


@function_tool
def search(what: str) -> str:
    DONE.append(what)
    return f"found {what}"


def asking(*calls: Any) -> Callable[[list[Any]], list[Any]]:
    """A model that makes these calls, and then says what they came to."""

    def turn(said: list[Any]) -> list[Any]:
        found = results(said)
        return [say("; ".join(map(str, found)))] if found else list(calls)

    return turn


def agent(*tools: Any, turn: Any = None, **more: Any) -> Agent[Any]:
    made = turn or asking(*(call(f"c{n}", tool.name) for n, tool in enumerate(tools)))
    return Agent(name="Desk", tools=list(tools), model=Scripted(made, name="m"), **more)


@contextmanager
def own_loop() -> Iterator[None]:
    """The SDK leaves the loop of the thread open, on purpose."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class Place:
    """A store, and the three ways to run an agent in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def block(self, run: str = "r", **more: Any) -> Any:
        return durable(run, store=self.path, if_finished="reopen", **more)

    async def run(self, agent: Agent[Any], effects: Any = None, **options: Any) -> Any:
        async with self.block(effects=effects):
            return await Runner.run(agent, "Begin.", **options)

    async def stream(self, agent: Agent[Any], effects: Any = None, **options: Any) -> Any:
        async with self.block(effects=effects):
            result = Runner.run_streamed(agent, "Begin.", **options)
            async for _ in result.stream_events():
                pass
            return result

    def in_mode(self, mode: str, agent: Agent[Any], effects: Any = None, **options: Any) -> Any:
        if mode == "sync":
            with own_loop(), self.block(effects=effects):
                return Runner.run_sync(agent, "Begin.", **options)
        return asyncio.run((self.run if mode == "async" else self.stream)(agent, effects, **options))

    def steps(self, run: str = "r") -> list[tuple[str, str]]:
        events = holdfast.store(self.path).events(run)
        return [(event.kind, event.name) for event in events if event.kind.startswith("step")]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "s.db")


MODES = pytest.mark.parametrize("mode", ["async", "sync", "streamed"])


@MODES
def test_a_second_attempt_asks_and_does_nothing_again(place: Place, mode: str) -> None:
    """Run again, all is answered from the journal, with the same usage; and so it is in another manner of running."""
    first = place.in_mode(mode, agent(search, turn=asking(call("c1", "search", what="a"))))
    for other in ("async", "sync", "streamed"):
        again = agent(search, turn=asking(call("c1", "search", what="a")))
        result = place.in_mode(other, again)
        assert result.final_output == first.final_output == "found a"
        assert result.context_wrapper.usage == first.context_wrapper.usage
        assert result.context_wrapper.usage.total_tokens == 30
        assert [item.to_input_item() for item in result.new_items] == [
            item.to_input_item() for item in first.new_items
        ]
        assert again.model.asked == 0  # type: ignore[union-attr]
    assert DONE == ["a"]


@MODES
def test_another_question_stops_before_it_is_asked(place: Place, mode: str) -> None:
    """Instructions that differ from the recorded ones stop the run, and nobody is asked or paid.

    Planted: model calls at the places of the SDK's own tasks: the model was asked twice before the drift was noticed.
    """
    place.in_mode(mode, agent(search, instructions="A", turn=asking(call("c1", "search", what="a"))))
    other = agent(search, instructions="B", turn=asking(call("c1", "search", what="a")))
    with pytest.raises(holdfast.Diverged, match="instructions"):
        place.in_mode(mode, other)
    assert other.model.asked == 0  # type: ignore[union-attr]


@MODES
@pytest.mark.parametrize("is_async", [True, False])
def test_a_stop_leaves_the_sdk_on_the_first_call(place: Place, mode: str, is_async: bool) -> None:
    """A tool that is once and fails is in doubt: neither is the model told to try again, nor are the others in doubt.

    Planted: without waiting for them, the SDK cancels the tools beside it, and a paid one is in doubt too.
    """

    async def fail() -> str:
        DONE.append("fail")
        raise ValueError("line is dead")

    def fail_sync() -> str:
        DONE.append("fail")
        raise ValueError("line is dead")

    async def slow() -> str:
        await asyncio.sleep(0.1)
        DONE.append("slow")
        return "ok"

    failing = function_tool(fail if is_async else fail_sync, name_override="fail")
    desk = agent(function_tool(slow), failing, function_tool(slow, name_override="slower"))
    with pytest.raises(holdfast.StepInDoubt, match="line is dead"):
        place.in_mode(mode, desk)
    assert desk.model.asked == 1  # type: ignore[union-attr]
    assert sorted(DONE) == ["fail", "slow", "slow"]
    ended = [name for kind, name in place.steps() if kind == "step.finished"]
    assert sorted(ended) == ["Desk", "slow", "slower"]
    holdfast.store(place.path).resolve("r", "fail", "done", value="it was done")
    assert place.in_mode(mode, desk).final_output == "ok; it was done; ok"
    assert sorted(DONE) == ["fail", "slow", "slow"]


def test_what_the_model_was_told_of_a_failure_is_told_again(place: Place) -> None:
    """A failure of a tool that only reads is told to the model in the SDK's way, and the same in every replay."""

    def tell(_: Any, error: Exception) -> str:
        DONE.append(error)
        return f"failed: {error} ({len(DONE)})"

    @function_tool(failure_error_function=tell)
    def fail() -> str:
        raise ValueError("no such city")

    @function_tool(timeout=0.01)
    async def sleep() -> str:
        await asyncio.sleep(10)
        return "never"

    effects = {"fail": "read", "sleep": "read"}
    for _ in range(2):
        output = asyncio.run(place.run(agent(fail, sleep), effects)).final_output
        assert output == "failed: no such city (1); Tool 'sleep' timed out after 0.01 seconds."


def test_a_tool_that_raises_fails_the_run_and_is_tried_again(place: Place) -> None:
    """Where the SDK is told to raise, it does; the next attempt asks no model again."""

    @function_tool(failure_error_function=None)
    def fail() -> str:
        DONE.append(1)
        if len(DONE) == 1:
            raise ValueError("not yet")
        return "now"

    desk = agent(fail)
    with pytest.raises(UserError, match="not yet"):
        asyncio.run(place.run(desk, {"fail": "read"}))
    assert asyncio.run(place.run(desk, {"fail": "read"})).final_output == "now"
    assert desk.model.asked == 2  # type: ignore[union-attr]


@MODES
def test_equal_calls_at_once_keep_their_results_apart(place: Place, mode: str) -> None:
    """Two calls with equal arguments are two calls, each known by its id, whichever is first in a replay.

    Planted: known by their order, the replay gave each the other's result, and the next request diverged.
    """
    turns = iter([0.2, 0.0])

    @function_tool
    async def draw() -> str:
        number = len(DONE)
        DONE.append(number)
        await asyncio.sleep(next(turns, 0))
        return f"ticket {number}"

    class Hooks(RunHooks[Any]):
        late = False

        async def on_tool_start(self, context: Any, *_: Any) -> None:
            await asyncio.sleep(0.05 if (context.tool_call_id == "c0") == self.late else 0)

    outputs = []
    for late in (False, True):
        hooks = Hooks()
        hooks.late = late
        desk = agent(draw, turn=asking(call("c0", "draw"), call("c1", "draw")))
        outputs.append(place.in_mode(mode, desk, hooks=hooks).final_output)
    assert outputs[0] == outputs[1]
    assert DONE == [0, 1]


def test_the_agent_stays_as_it_is(place: Place) -> None:
    """Copies are made durable; what the user has is not touched, and the last agent can be run outside of a block."""
    desk = agent(search, turn=asking(call("c1", "search", what="a")))
    before = dict(vars(desk))
    result = asyncio.run(place.run(desk))
    assert vars(desk) == before
    assert isinstance(result.last_agent, Agent)
    again = asyncio.run(Runner.run(result.last_agent, "Begin."))
    assert again.final_output == "found a"
    assert DONE == ["a", "a"]
    asyncio.run(place.run(result.last_agent))
    assert DONE == ["a", "a"]


def test_models_by_name_and_those_of_the_run_config(place: Place) -> None:
    """Whoever gives the model, its answers are journaled: a provider by name, the run's configuration, as a dict too."""
    model = Scripted(lambda _: [say("hello")])

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Scripted:
            DONE.append(model_name)
            return model

    async def main(*configs: Any) -> None:
        async with place.block():
            for number, config in enumerate(configs):
                named: Agent[Any] = Agent(name=f"A{number}", model="small")
                assert (await Runner.run(named, "Hi", run_config=config)).final_output == "hello"

    configs = [RunConfig(model_provider=Provider()), {"model_provider": Provider()}, RunConfig(model=model)]
    for _ in range(2):
        asyncio.run(main(*configs))
    assert model.asked == 3
    assert DONE == ["small", "small"] * 2


def test_settings_that_are_drawn_or_secret_are_no_part_of_the_question(place: Place) -> None:
    """Headers are not written to the store; a cache key that the SDK draws for each run makes no other question."""

    class Cached(Scripted):
        def _supports_default_prompt_cache_key(self) -> bool:
            return True

    settings = ModelSettings(temperature=0.5, extra_headers={"authorization": "hunter2"})
    keys = []
    for _ in range(2):
        model = Cached(lambda _: [say("hello")])
        desk: Agent[Any] = Agent(name="Desk", model=model, model_settings=settings)
        asyncio.run(place.run(desk))
        keys += [asked.extra_args["prompt_cache_key"] for asked in model.requests]
    assert len(keys) == 1
    written = b"".join(event.body for event in holdfast.store(place.path).events("r"))
    assert b"hunter2" not in written
    assert b"hunter2" not in place.path.read_bytes()


def test_handoffs_of_every_kind_lead_to_durable_agents(place: Place) -> None:
    """Given as an agent, as a handoff, in a circle, or made when it happens."""

    def writer(made: list[Any]) -> Agent[Any]:
        one = agent(search, turn=asking(call("c9", "search", what="b")))
        one.name = "Writer"
        one.model = Scripted(
            lambda said: [say("done")] if len(results(said)) > 1 else [call("c9", "search", what="b")]
        )
        made.append(one)
        return one

    for kind in ("agent", "handoff"):
        models: list[Any] = []
        for _ in range(2):
            to = writer(models)
            desk: Agent[Any] = Agent(
                name="Desk",
                handoffs=[to if kind == "agent" else handoff(to)],
                model=Scripted(lambda _: [call("c1", "transfer_to_writer")]),
            )
            to.handoffs = [desk]
            models.append(desk)
            place.path = place.path.with_name(f"{kind}.db")
            result = asyncio.run(place.run(desk))
            assert (result.final_output, result.last_agent.name) == ("done", "Writer")
        assert [one.model.asked for one in models] == [2, 1, 0, 0]
    assert DONE == ["b", "b"]


def test_guardrails_that_ask_agents_are_steps_too(place: Place) -> None:
    """A guardrail that runs beside the first model call has its own agent asked once."""
    judge: Agent[Any] = Agent(name="Judge", model=Scripted(lambda _: [say("fine")]))

    async def guard(_: Any, __: Any, said: Any) -> GuardrailFunctionOutput:
        verdict = await Runner.run(judge, said)
        return GuardrailFunctionOutput(verdict.final_output, tripwire_triggered=False)

    for _ in range(2):
        desk = agent(
            search,
            turn=asking(call("c1", "search", what="a")),
            input_guardrails=[InputGuardrail(guard)],
        )
        result = asyncio.run(place.run(desk))
        assert result.input_guardrail_results[0].output.output_info == "fine"
    assert judge.model.asked == 1  # type: ignore[union-attr]
    assert DONE == ["a"]


def test_agents_side_by_side_are_not_taken_for_each_other(place: Place) -> None:
    """Two runs of one agent at once: cut off between the two, the one that was not recorded is no drift."""

    async def main(*said: str) -> list[str]:
        async with place.block():
            desk: Agent[Any] = Agent(
                name="Desk", model=Scripted(lambda items: [say(items[-1]["content"].upper())])
            )
            done = await asyncio.gather(*(Runner.run(desk, one) for one in said))
            return [one.final_output for one in done]

    assert asyncio.run(main("b")) == ["B"]
    assert asyncio.run(main("a", "b")) == ["A", "B"]


def test_an_agent_as_a_tool_is_asked_by_the_same_provider_once(place: Place) -> None:
    """A model by name inside an agent that is a tool: it comes through both configurations, and is one step.

    Planted: a model that is durable made durable again was a step inside of itself; an agent's usage not kept with its
    answer was missing in the replay.
    """
    inner = Scripted(lambda _: [say("inside")])

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Scripted:
            return inner

    tool = Agent[Any](name="Inner", model="small").as_tool("delegate", "")
    for _ in range(2):
        desk = agent(tool, turn=asking(call("c1", "delegate", input="x")))
        result = asyncio.run(place.run(desk, run_config=RunConfig(model_provider=Provider())))
        assert result.final_output == "inside"
        assert result.context_wrapper.usage.requests == 3
    assert inner.asked == 1
    assert place.steps().count(("step.started", "Inner")) == 1


@pytest.mark.parametrize("effect", ["once", "read"])
def test_an_agent_that_a_tool_starts(place: Place, effect: str) -> None:
    """Inside a once tool it is part of that step; inside one that may be repeated, its calls are steps by themselves."""
    inner = agent(search, turn=asking(call("c7", "search", what="z")))

    @function_tool
    async def delegate() -> str:
        return str((await Runner.run(inner, "Go.")).final_output)

    for _ in range(2):
        assert asyncio.run(place.run(agent(delegate), {"delegate": effect})).final_output == "found z"
    assert DONE == ["z"]
    assert (("step.finished", "search") in place.steps()) == (effect == "read")


def test_tools_that_come_later_and_from_elsewhere(place: Place) -> None:
    """A tool that was added after the block began is a step; and so are those that an MCP server has."""
    mcp = pytest.importorskip("mcp.types")
    from agents.mcp import MCPServer

    class Server(MCPServer):
        name = "server"

        async def connect(self) -> None: ...
        async def cleanup(self) -> None: ...
        async def list_tools(self, *_: Any, **__: Any) -> list[Any]:
            schema = {"type": "object", "properties": {}}
            return [mcp.Tool.model_validate({"name": "remote", "inputSchema": schema})]

        async def call_tool(self, *_: Any, **__: Any) -> Any:
            DONE.append("remote")
            content = [{"type": "text", "text": "from afar"}]
            return mcp.CallToolResult.model_validate({"content": content})

        async def list_prompts(self) -> Any: ...
        async def get_prompt(self, *_: Any, **__: Any) -> Any: ...

    outputs = []
    for _ in range(2):
        desk = agent(
            turn=asking(call("c1", "search", what="a"), call("c2", "remote")), mcp_servers=[Server()]
        )

        async def main(desk: Agent[Any]) -> Any:
            async with place.block(effects={"remote": "read"}):
                desk.tools.append(search)
                return (await Runner.run(desk, "Begin.")).final_output

        outputs.append(asyncio.run(main(desk)))
    assert outputs[0] == outputs[1]
    assert "from afar" in outputs[0]
    assert sorted(DONE) == ["a", "remote"]


class Odd:
    """Something that cannot be stored."""

    def __str__(self) -> str:
        return "an odd thing"


def test_whatever_a_tool_returns_is_told_again(place: Place) -> None:
    """The SDK's own outputs come back typed; what cannot be stored, as the text that the model was told."""

    @function_tool
    def typed() -> ToolOutputText:
        DONE.append(1)
        return ToolOutputText(text="typed")

    @function_tool
    def odd() -> Any:
        return Odd()

    desk = agent(typed, odd, turn=asking(call("c0", "typed"), call("c1", "odd")))
    outputs = [asyncio.run(place.run(desk)).to_input_list() for _ in range(2)]
    assert outputs[0] == outputs[1]
    assert "an odd thing" in str(outputs[0])
    assert DONE == [1]


def test_a_tool_that_is_a_step_by_itself_stays_it(place: Place) -> None:
    """What @holdfast.tool declares counts; needs_approval beside it would be asked for twice, and is refused."""

    @holdfast.tool(effect="read")
    def pay(what: str) -> str:
        DONE.append(what)
        return f"paid {what}"

    for _ in range(2):
        desk = agent(function_tool(pay), turn=asking(call("c1", "pay", what="x")))
        assert asyncio.run(place.run(desk)).final_output == "paid x"
    assert DONE == ["x"]
    assert place.steps().count(("step.started", "pay")) == 1
    with pytest.raises(holdfast.Misuse, match="approve"):
        asyncio.run(place.run(agent(function_tool(pay, needs_approval=True))))


def test_a_session_that_knows_nothing_of_runs_is_refused(place: Place) -> None:
    """It would be given the same items again after a kill: said before anything is asked, not after."""
    desk = agent(search)
    with pytest.raises(holdfast.Misuse, match="HoldfastSession"):
        asyncio.run(place.run(desk, session=SQLiteSession("s")))
    assert desk.model.asked == 0  # type: ignore[union-attr]


def test_outside_of_a_block_the_sdk_is_what_it_was(place: Place) -> None:
    """In a plain run, agents are run as ever; a block without an id joins the run that is there, and needs one."""
    desk = agent(search, turn=asking(call("c1", "search", what="a")))

    async def main() -> None:
        run = holdfast.run("r", store=place.path, if_finished="reopen")
        async with run, durable(effects={"search": "read"}):
            await Runner.run(desk, "Begin.")

    asyncio.run(Runner.run(desk, "Begin."))
    for _ in range(2):
        asyncio.run(main())
    assert DONE == ["a", "a"]
    assert ("step.finished", "search") in place.steps()
    with pytest.raises(holdfast.NoCurrentRun), durable():
        pass
    with pytest.raises(holdfast.BadName), durable(store=place.path):
        pass


def test_the_providers_errors_are_waited_for_or_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A model call that fails ends the attempt with its own error; the next attempt asks it again, and only it."""
    caplog.set_level(logging.CRITICAL)
    failing = [True]

    def turn(said: list[Any]) -> list[Any]:
        if results(said) and failing:
            failing.clear()
            raise RuntimeError("out of credits")
        return asking(call("c1", "search", what="a"))(said)

    desk = agent(search, turn=turn)
    with pytest.raises(RuntimeError, match="credits"):
        asyncio.run(place.run(desk))
    assert asyncio.run(place.run(desk)).final_output == "found a"
    assert desk.model.asked == 3  # type: ignore[union-attr]
    assert DONE == ["a"]
