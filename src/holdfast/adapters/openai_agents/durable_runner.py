"""A block around calls of the SDK's ``Runner`` in which agents are durable.

Agents are copied, with the agents they hand over to. Agents that a tool, a guardrail or another agent starts
use the same runner.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from agents import Agent, FunctionTool, Handoff, Model, RunConfig
from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner

from holdfast.adapters.openai_agents.model import DurableModel, DurableProvider
from holdfast.adapters.openai_agents.session import HoldfastSession
from holdfast.adapters.openai_agents.tools import durable_tool
from holdfast.adapters.shared.durable_block import DurableBlock, ParallelCalls
from holdfast.adapters.shared.journaled_calls import RunPosition, call_options_of
from holdfast.adapters.shared.turns import Turns, turns_taken
from holdfast.api import enter
from holdfast.errors import Misuse
from holdfast.model.calls import ONCE, CallOptions, Effect


def durable(
    run: str = "", *, effects: Mapping[str, Effect] | None = None, **entry: Any
) -> "DurableBlock[Frame]":
    """See ``holdfast.adapters.openai_agents.durable``."""
    if not isinstance(get_default_agent_runner(), DurableRunner):
        set_default_agent_runner(DurableRunner(get_default_agent_runner()))
    opening = enter.run(run, **entry) if run or entry else None
    return DurableBlock(opening, FRAME, Frame(call_options_of(effects or (), effects)))


class Frame:
    """What the agents of one block share: the options of tools, their copies, their calls in flight."""

    def __init__(self, known: Mapping[str, CallOptions]) -> None:
        self.call_options_of: defaultdict[str, CallOptions] = defaultdict(
            lambda: ONCE._replace(is_tool=True), known
        )
        self.flights: defaultdict[str, ParallelCalls] = defaultdict(ParallelCalls)
        self._made: dict[int, tuple[Any, Any]] = {}

    def agent(self, agent: Any) -> Any:
        """The durable copy of an agent: one for each, also if agents hand over to each other."""
        if isinstance(agent, DurableAgent) or not isinstance(agent, Agent):
            return agent
        if id(agent) not in self._made:
            kind: Any = type(type(agent).__name__, (DurableAgent, type(agent)), {})
            likeness = kind.__new__(kind)
            vars(likeness).update(vars(agent))
            self._made[id(agent)] = agent, likeness
            if isinstance(agent.model, Model):
                likeness.model = DurableModel(agent.model)
            likeness.handoffs = [self._handoff(handoff) for handoff in agent.handoffs]
        return self._made[id(agent)][1]

    def _handoff(self, handoff: Any) -> Any:
        if not isinstance(handoff, Handoff):
            return self.agent(handoff)

        async def hand_over(*args: Any) -> Any:
            return self.agent(await handoff.on_invoke_handoff(*args))

        return replace(handoff, on_invoke_handoff=hand_over)

    def prepare(self, options: dict[str, Any]) -> None:
        """Make the runner's options use journaled models."""
        session = options.get("session")
        if not isinstance(session, HoldfastSession | None):
            problem = f"a {type(session).__name__} is given the same items again when the run is resumed"
            raise Misuse(problem=problem, advice="use HoldfastSession(session_id)")
        given = options.get("run_config") or {}
        config = RunConfig(**given) if isinstance(given, dict) else given
        model = DurableModel(config.model) if isinstance(config.model, Model) else config.model
        provider = DurableProvider(config.model_provider)
        options["run_config"] = replace(config, model=model, model_provider=provider)


FRAME: ContextVar[Frame | None] = ContextVar("holdfast_frame", default=None)


class DurableAgent:
    """The mixin for the class of a durable copy."""

    name: str

    async def get_all_tools(self, run_context: Any) -> list[Any]:
        """The agent's current tools, including those of MCP servers; hosted ones belong to the provider."""
        found: list[Any] = list(await super().get_all_tools(run_context))  # type: ignore[misc]
        frame = FRAME.get()
        if frame is None or RunPosition.find_free() is None:
            return found
        turns_taken().agent = self.name
        for number, tool in enumerate(found):
            if isinstance(tool, FunctionTool):
                found[number] = durable_tool(tool, frame.call_options_of[tool.name], frame.flights)
        return found


class DurableRunner(AgentRunner):
    """The previous runner; inside a block, with durable agents."""

    def __init__(self, before: AgentRunner) -> None:
        self._before = before

    async def run(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - the SDK's names
        with _prepared(starting_agent, options) as agent:
            return await self._before.run(agent, input, **options)

    def run_sync(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        with _prepared(starting_agent, options) as agent:
            return self._before.run_sync(agent, input, **options)

    def run_streamed(self, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        with _prepared(starting_agent, options) as agent:
            return self._before.run_streamed(agent, input, **options)


@contextmanager
def _prepared(agent: Any, options: dict[str, Any]) -> Iterator[Any]:
    """The agent to run: unchanged outside of a block and inside of a once tool, which is one step."""
    frame, turns = FRAME.get(), Turns.find_free()
    if frame is None or turns is None:
        yield agent
        return
    frame.prepare(options)
    with turns.taken():
        yield frame.agent(agent)
