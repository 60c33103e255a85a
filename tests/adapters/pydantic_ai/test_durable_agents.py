"""Durable agents of Pydantic AI: the real package and a scripted model. A second attempt calls nobody again."""

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    DeferredToolRequests,
    ModelRetry,
    RunContext,
    ToolReturn,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai.capabilities import AbstractCapability, ModelFallback, durable_operation
from pydantic_ai.durable_exec import BaseDurabilityCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, ToolReturnPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset
from tests.adapters.pydantic_ai.scripted import Turn, make_agent, scripted

import holdfast
from holdfast.adapters.pydantic_ai import Durability, durable

BATCH = ["pay 0", "pay 1", "pay 2"]
ALL = ["model 0", *BATCH, "model 1", "look x", "model 2"]


def in_turns(heard: list[str]) -> list[str]:
    """What was heard, with the tools of one turn in their order: they run in parallel threads."""
    turns = groupby(heard, key=lambda one: one in BATCH)
    return [one for is_batch, turn in turns for one in (sorted(turn) if is_batch else turn)]


@dataclass
class Deps:
    """Made anew in every attempt; it has an address, and is no part of anything."""

    name: str


async def by_run(agent: Any) -> Any:
    result = await agent.run("go", deps=Deps("ada"))
    return result.output, result.usage


async def by_stream(agent: Any) -> Any:
    async with agent.run_stream("go", deps=Deps("ada")) as result:
        text = "".join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])
    return text, result.usage


async def by_events(agent: Any) -> Any:
    async with agent.run_stream_events("go", deps=Deps("ada")) as events:
        result = [event async for event in events][-1].result
    return result.output, result.usage


async def by_iter(agent: Any) -> Any:
    async with agent.iter("go", deps=Deps("ada")) as agent_run:
        async for _ in agent_run:
            pass
    return agent_run.result.output, agent_run.result.usage


@pytest.mark.parametrize("way", [by_run, by_stream, by_events, by_iter])
def test_a_second_attempt_calls_nobody(tmp_path: Path, way: Callable[[Any], Any]) -> None:
    """However the agent is run; with other dependencies, timestamps and ids; and what it used is the same.

    Planted: the timestamps of messages left in the identity of a request (Diverged, in every way).
    """
    heard: list[str] = []

    async def attempt() -> Any:
        async with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            return await way(durable(make_agent(heard, instructions="Be brief."), effects={"look": "read"}))

    first = asyncio.run(attempt())
    assert in_turns(heard) == ALL
    assert asyncio.run(attempt()) == first
    assert in_turns(heard) == ALL
    assert (first[0].strip(), first[1].requests, first[1].tool_calls) == ("all is done", 3, 4)


def test_blocking_programs(tmp_path: Path) -> None:
    """``run_sync`` and ``run_stream_sync`` in a plain ``with``; and the agent that enters its run by itself."""
    heard: list[str] = []

    def attempt() -> list[str]:
        with holdfast.run("sync", store=tmp_path / "s.db", if_finished="reopen"):
            said = [durable(make_agent(heard)).run_sync("go").output]
        with (
            holdfast.run("stream", store=tmp_path / "s.db", if_finished="reopen"),
            durable(make_agent(heard)).run_stream_sync("go") as result,
        ):
            said.append("".join(result.stream_text(delta=True)))
        own = durable(make_agent(heard), run="own", store=tmp_path / "s.db", goal="pay them")
        return [*said, own.run_sync("go").output]

    first = attempt()
    assert in_turns(heard) == ALL * 3
    assert attempt() == first
    assert in_turns(heard) == ALL * 3
    assert holdfast.store(tmp_path / "s.db").get("own").status == "finished"


def test_the_capability_on_the_agent_itself(tmp_path: Path) -> None:
    """``Agent(capabilities=[Durability(...)])`` needs no wrapper; outside of a run it does nothing."""
    heard: list[str] = []
    agent = make_agent(heard, capabilities=[Durability({"look": "read"})])
    assert agent.run_sync("go").output == "all is done"
    for _ in range(2):
        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            agent.run_sync("go")
    assert in_turns(heard) == ALL * 2


def test_beside_a_run_it_is_refused(tmp_path: Path) -> None:
    """In a thread that nobody has told of the run that this process holds: what it did would be lost with the process."""
    agent = durable(make_agent([]))

    async def held() -> None:
        async with holdfast.run("held", store=tmp_path / "s.db"):
            context = contextvars.Context()  # as a new thread has it
            with pytest.raises(holdfast.NoCurrentRun, match="durable agent"):
                await asyncio.create_task(agent.run("go"), context=context)

    asyncio.run(held())


def test_what_a_run_is_given_is_journaled_too(tmp_path: Path) -> None:
    """Models, toolsets and overrides that the agent was not built with: nobody has to register anything."""
    heard: list[str] = []
    bare: Agent[Any, Any] = Agent()

    def look(q: str) -> str:
        heard.append(f"look {q}")
        return q

    def attempt() -> None:
        extra = FunctionToolset[Any]([look]).prefixed("my")
        model = scripted([[("my_look", {"q": "y"})], "seen"], heard)
        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            effects: Any = {"my_look": "read"}
            assert (
                durable(bare, effects=effects).run_sync("go", model=model, toolsets=[extra]).output == "seen"
            )
            agent = make_agent(heard)
            with agent.override(model=scripted(["overridden"], heard)):
                assert durable(agent).run_sync("go").output == "overridden"

    attempt()
    attempt()
    assert heard == ["model 0", "look y", "model 1", "model 0"]


@pytest.mark.parametrize("way", [by_run, by_stream])
def test_another_prompt_is_drift(tmp_path: Path, way: Callable[[Any], Any]) -> None:
    """A model that is asked something else would answer something else: nobody is asked, and the difference is named.

    Planted: model calls placed by the tasks that Pydantic AI makes for each of them (drift is noticed at the end only).
    """
    heard: list[str] = []

    async def attempt(instructions: str) -> None:
        async with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            await way(durable(make_agent(heard, instructions=instructions)))

    asyncio.run(attempt("Be brief."))
    with pytest.raises(holdfast.Diverged, match=r"Be kind\."):
        asyncio.run(attempt("Be kind."))
    assert in_turns(heard) == ALL


def test_agents_side_by_side(tmp_path: Path) -> None:
    """Each has its own way through the run: that the other was quicker last time is no drift."""
    heard: list[str] = []

    async def attempt(first: float, second: float) -> None:
        async def one(prompt: str, wait_s: float) -> str:
            await asyncio.sleep(wait_s)
            return str((await durable(make_agent(heard)).run(prompt)).output)

        async with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            await asyncio.gather(one("go", first), one("come", second))

    asyncio.run(attempt(0, 0.05))
    asyncio.run(attempt(0.05, 0))
    assert sorted(heard) == sorted(ALL * 2)


# -- tools -----------------------------------------------------------------------------------------------------------


class Receipt(BaseModel):
    amount: int


def test_what_tools_return_comes_back_as_it_was(tmp_path: Path) -> None:
    """Models, files and ``ToolReturn``: the messages of a replay are those of the first attempt."""
    turns: list[Turn] = [[("receipt", {"of": {"amount": 2}}), ("chart", {})], "done"]

    def attempt() -> list[Any]:
        agent = Agent(scripted(turns, []))

        @agent.tool_plain
        def receipt(of: Receipt) -> Receipt:
            return Receipt(amount=of.amount + 1)

        @agent.tool_plain
        def chart() -> ToolReturn:
            image = BinaryContent(b"png", media_type="image/png")
            return ToolReturn("see the chart", content=["a chart", image], metadata={"w": 3})

        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            messages = durable(agent).run_sync("go").all_messages()
        return [
            (getattr(part, "content", None), getattr(part, "metadata", None))
            for message in messages
            for part in message.parts
            if not isinstance(message, ModelResponse)
        ]

    first = attempt()
    assert (Receipt(amount=3), None) in first
    assert attempt() == first


def test_a_retry_is_an_outcome(tmp_path: Path) -> None:
    """``ModelRetry`` of a tool whose effect is once is no doubt: the tool has said what became of the call."""
    heard: list[str] = []

    def attempt() -> tuple[str, list[str]]:
        agent = Agent(scripted([[("pick", {"n": 1})], [("pick", {"n": 2})], "picked"], heard))

        @agent.tool_plain
        def pick(n: int) -> str:
            heard.append(f"pick {n}")
            if n == 1:
                raise ModelRetry("not that one")
            return "that one"

        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            result = durable(agent).run_sync("go")
        told = [
            str(getattr(part, "content", "")) for message in result.all_messages() for part in message.parts
        ]
        return result.output, told

    first = attempt()
    assert any("not that one" in told for told in first[1])
    assert attempt() == first
    assert heard == ["model 0", "pick 1", "model 1", "pick 2", "model 2"]


def test_output_validators_and_their_retries(tmp_path: Path) -> None:
    """A retry of the output answers no call; the id that early 2.x draws for it each time is no part of the request."""
    heard: list[str] = []

    def attempt() -> Any:
        agent = Agent(scripted(["short", "long enough"], heard), retries=2)

        @agent.output_validator
        def check(text: str) -> str:
            if len(text) < 8:
                raise ModelRetry("longer, please")
            return text

        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            result = durable(agent).run_sync("go")
        return result.output

    assert attempt() == attempt() == "long enough"
    assert heard == ["model 0", "model 1"]


def test_structured_output(tmp_path: Path) -> None:
    """Output tools are no tools of the agent: the response that calls one is the record."""
    heard: list[str] = []
    turns: list[Turn] = [[("final_result", {"amount": 7})]]

    def attempt() -> Any:
        own = durable(Agent(scripted(turns, heard), output_type=Receipt), run="r", store=tmp_path / "s.db")
        return own.run_sync("go").output

    assert attempt() == attempt() == Receipt(amount=7)
    assert heard == ["model 0"]


def test_tools_that_are_steps_by_themselves_stay_so(tmp_path: Path) -> None:
    """A ``@holdfast.tool`` among the tools keeps its own effect, its key, and its name in the schema."""
    ledger = str(tmp_path / "ledger")

    @holdfast.tool(effect="once")
    def pay(n: int, *, idempotency_key: str = holdfast.KEY) -> str:
        """Pay."""
        with open(ledger, "a") as lines:
            lines.write(f"{idempotency_key}\n")
        return f"paid {n}"

    for _ in range(2):
        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            durable(Agent(scripted([[("pay", {"n": 1})], "paid"], []), tools=[pay])).run_sync("go")
    (key,) = Path(ledger).read_text().splitlines()
    assert len(key) == 32
    (started,) = [
        event
        for event in holdfast.store(tmp_path / "s.db").events("r")
        if event.kind == "step.started" and event.name == "pay"
    ]
    assert b'"once"' in started.body


def test_metadata_says_the_effect(tmp_path: Path) -> None:
    """Where the tool is written, for those that nobody names in ``effects``."""
    agent = Agent(scripted([[("look", {})], "seen"], []))

    @agent.tool_plain(metadata={"holdfast": "read"})
    def look() -> str:
        return "x"

    durable(agent, run="r", store=tmp_path / "s.db").run_sync("go")
    events = holdfast.store(tmp_path / "s.db").events("r")
    assert any(event.name == "look" and b'"effect":"read"' in event.body for event in events)
    with pytest.raises(holdfast.BadOption):
        durable(agent, effects={"look": "raed"})  # type: ignore[dict-item]


def test_an_effect_of_a_tool_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """It is misspelt; unless the tool is only hidden now, or comes from a toolset that nobody knows beforehand."""
    agent = Agent(scripted([[("look", {})], "seen"] * 2, []))

    async def hidden(*_: Any) -> None:
        return None

    @agent.tool_plain
    def look() -> str:
        return "x"

    @agent.tool_plain(prepare=hidden)
    def wipe() -> None: ...

    for name in ("look", "wipe"):
        durable(agent, effects={name: "read"}, run=name, store=tmp_path / "s.db").run_sync("go")
    with pytest.raises(holdfast.Misuse, match="lok"):
        durable(agent, effects={"lok": "read"}, run="lok", store=tmp_path / "s.db").run_sync("go")

    @agent.toolset
    def later(ctx: RunContext[Any]) -> FunctionToolset[Any]:
        return FunctionToolset([])

    durable(agent, effects={"lok": "read"}, run="later", store=tmp_path / "s.db").run_sync("go")


# -- usage -----------------------------------------------------------------------------------------------------------


def test_a_limit_that_was_reached_stays_reached(tmp_path: Path) -> None:
    """The attempt after it counts what was used before: it comes to the same limit, and asks nobody on the way.

    Planted: a replayed response without its usage.
    """
    heard: list[str] = []
    for _ in range(2):
        with (
            pytest.raises(UsageLimitExceeded),
            holdfast.run("r", store=tmp_path / "s.db"),
        ):
            limits = UsageLimits(request_limit=3, input_tokens_limit=100)
            durable(make_agent(heard), effects={"look": "read"}).run_sync("go", usage_limits=limits)
    assert in_turns(heard) == ["model 0", *BATCH, "model 1"]


def test_what_a_tool_used_is_counted_in_a_replay(tmp_path: Path) -> None:
    """An agent inside a tool spends the usage of the run that it is given; three at once, each its own.

    Planted: the usage of a tool's call not added when it is answered from the journal; and the difference taken of
    the shared usage (then each call counts what the others spent).
    """
    turns: list[Turn] = [[("expert", {"n": n}) for n in range(3)], "done"]

    def attempt() -> Any:
        agent = Agent(scripted(turns, []))
        inner: Agent[Any, Any] = Agent(scripted(["an opinion of an expert"], []))

        @agent.tool
        async def expert(ctx: RunContext[Any], n: int) -> str:
            await asyncio.sleep(0.01 * n)
            return str((await inner.run(f"what of {n}?", usage=ctx.usage)).output)

        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            return durable(agent).run_sync("go").usage

    first = attempt()
    assert (first.requests, first.tool_calls) == (5, 3)
    assert attempt() == first


# -- people ----------------------------------------------------------------------------------------------------------


def wants_approval(heard: list[str], **options: Any) -> Agent[Any, Any]:
    turns: list[Turn] = [[("wipe", {"path": "a"}), ("drop", {"table": "b"})], "cleaned"]
    agent: Agent[Any, Any] = Agent(scripted(turns, heard), **options)

    @agent.tool_plain(requires_approval=True)
    def wipe(path: str) -> str:
        heard.append(f"wipe {path}")
        return "wiped"

    @agent.tool
    def drop(ctx: RunContext[Any], table: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        heard.append(f"drop {table}")
        return "dropped"

    return agent


def test_approvals_are_asked_through_the_run(tmp_path: Path) -> None:
    """The run parks with a question for each call; approved, the call is made; denied, the model is told by whom and why."""
    heard: list[str] = []
    store = holdfast.store(tmp_path / "s.db")
    for answered in ("wipe", "drop"):
        with pytest.raises(holdfast.Parked):
            durable(wants_approval(heard), run="r", store=tmp_path / "s.db").run_sync("go")
        question = next(one for one in store.questions() if answered in one.question)
        store.answer("r", answered == "wipe", question.id, by="eve", reason="too large")
    messages = durable(wants_approval(heard), run="r", store=tmp_path / "s.db").run_sync("go").all_messages()
    returned = {
        part.tool_name: part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    assert returned == {"wipe": "wiped", "drop": "denied by eve: too large"}
    assert heard == ["model 0", "wipe a", "model 1"]


def test_who_takes_deferred_calls_decides_about_them(tmp_path: Path) -> None:
    """An agent whose output may be ``DeferredToolRequests`` gives them to the program, as ever."""
    agent = wants_approval([], output_type=[str, DeferredToolRequests])
    output = durable(agent, run="r", store=tmp_path / "s.db").run_sync("go").output
    assert isinstance(output, DeferredToolRequests)
    assert {call.tool_name for call in output.approvals} == {"wipe", "drop"}


# -- stops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [by_run, by_stream, by_events])
def test_a_stop_leaves_on_the_first_call(tmp_path: Path, way: Callable[[Any], Any]) -> None:
    """From one of three parallel tools: the model is not asked what to do about it, and nothing is called twice."""
    heard: list[str] = []
    agent = make_agent(heard, [[("pay", {"n": 0}), ("charge", {}), ("look", {"q": "x"})], "never"])

    @agent.tool_plain
    def charge() -> None:
        heard.append("charge")
        raise ConnectionError("cut off")

    async def attempt() -> None:
        async with holdfast.run("r", store=tmp_path / "s.db"):
            await way(durable(agent, effects={"look": "read"}))

    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt, match="charge"):
            asyncio.run(attempt())
    assert heard.count("charge") == heard.count("model 0") == heard.count("pay 0") == 1
    assert "model 1" not in heard


def test_a_stop_lets_the_calls_beside_it_come_to_their_ends(tmp_path: Path) -> None:
    """Pydantic AI cancels them when one of a batch raises; a cancelled effect would be one more in doubt.

    Planted: calls made without their neighbours (both are in doubt).
    """
    agent = Agent(scripted([[("charge", {}), ("ship", {})], "never"], []))

    @agent.tool_plain
    async def charge() -> None:
        raise ConnectionError("cut off")

    @agent.tool_plain
    async def ship() -> str:
        await asyncio.sleep(0.05)
        return "shipped"

    with pytest.raises(holdfast.StepInDoubt, match="charge"):
        durable(agent, run="r", store=tmp_path / "s.db").run_sync("go")
    ends = {event.name: event.kind for event in holdfast.store(tmp_path / "s.db").events("r") if event.name}
    assert ends["ship"] == "step.finished"
    assert ends["charge"] != "step.finished"


def test_in_doubt_and_resolved(tmp_path: Path) -> None:
    """Nobody knows whether it happened; a person says that it did, and the run goes on with that."""
    heard: list[str] = []
    agent = make_agent(heard, [[("charge", {})], "charged"])

    @agent.tool_plain
    def charge() -> None:
        heard.append("charge")
        raise ConnectionError("cut off")

    own = durable(agent, run="r", store=tmp_path / "s.db")
    with pytest.raises(holdfast.StepInDoubt):
        own.run_sync("go")
    holdfast.store(tmp_path / "s.db").resolve("r", "charge", "done", value="receipt 7")
    result = own.run_sync("go")
    parts = [part for message in result.all_messages() for part in message.parts]
    assert [part.content for part in parts if isinstance(part, ToolReturnPart)] == ["receipt 7"]
    assert heard == ["model 0", "charge", "model 1"]


def test_a_tool_that_ran_out_of_time_is_in_doubt(tmp_path: Path) -> None:
    """Pydantic AI would tell the model to try again, after an effect that may have happened."""
    agent = Agent(scripted([[("slow", {})], "never"], []))

    @agent.tool_plain(timeout=0.01)
    async def slow() -> None:
        await asyncio.sleep(5)

    with pytest.raises(holdfast.StepInDoubt, match="slow"):
        durable(agent, run="r", store=tmp_path / "s.db").run_sync("go")


# -- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["model", "capability"])
def test_models_that_are_fallen_back_on(tmp_path: Path, way: str) -> None:
    """A ``FallbackModel`` is one model; with the capability each one is asked by itself. Neither is asked again."""
    heard: list[str] = []

    def busy(*_: Any) -> ModelResponse:
        heard.append("busy")
        raise ModelHTTPError(503, "busy")

    def agent() -> Agent[Any, str]:
        first, second = FunctionModel(busy, model_name="busy"), scripted(["at your service"], heard)
        if way == "model":
            return Agent(FallbackModel(first, second))
        return Agent(first, capabilities=[ModelFallback(second)])

    for _ in range(2):
        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            impatient = durable(agent(), patience=holdfast.Patience(give_up_s=0))
            assert impatient.run_sync("go").output == "at your service"
    assert heard == ["busy", "model 0"]


# -- other capabilities ----------------------------------------------------------------------------------------------


class Numbers(AbstractCapability[Any]):
    """Draws a number before the run begins."""

    def __init__(self, drawn: list[int]) -> None:
        self.id = "numbers"
        self.drawn = drawn
        self.seen: list[int] = []

    @durable_operation(name="draw")
    async def draw(self, ctx: RunContext[Any], below: int) -> int:
        self.drawn.append(below)
        return len(self.drawn)

    async def before_run(self, ctx: RunContext[Any]) -> None:
        self.seen.append(await self.draw(ctx, 6))


def test_operations_of_other_capabilities_are_steps(tmp_path: Path) -> None:
    """Through the durability socket: recorded, and not made again."""
    drawn: list[int] = []
    seen: list[int] = []
    for _ in range(2):
        numbers = Numbers(drawn)
        agent = Agent(scripted(["done"], []), capabilities=[numbers])
        with holdfast.run("r", store=tmp_path / "s.db", if_finished="reopen"):
            durable(agent).run_sync("go")
        seen += numbers.seen
    assert (drawn, seen) == ([6], [1, 1])
    assert issubclass(Durability, BaseDurabilityCapability)


def test_a_missing_framework_says_what_to_install() -> None:
    """The error names the package, and its hint is the command."""
    import subprocess
    import sys

    program = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "import holdfast\n"
        "try:\n    import holdfast.adapters.pydantic_ai\n"
        "except holdfast.AdapterNotInstalled as refused:\n    print(refused.hint)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "pip install 'holdfast[pydantic-ai]'"
