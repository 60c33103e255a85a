"""``durable(agent)``: a copy of an agent whose calls are steps of the current run.

Its model, its tools and the agents that it manages are copied too; the given ones are unchanged.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from threading import Lock
from typing import Any, TypeVar

from smolagents.remote_executors import RemotePythonExecutor  # pyright: ignore[reportMissingImports]

from holdfast.adapters.shared.journaled_calls import call_options_of
from holdfast.adapters.shared.turns import Turns, scoped, turns_here
from holdfast.adapters.smolagents.model import AgentPosition, DurableModel, DurableStreamingModel
from holdfast.adapters.smolagents.tools import DurableTool, effect_of, is_plain
from holdfast.errors import Misuse
from holdfast.model.calls import Effect

A = TypeVar("A")


def durable(agent: A, *, effects: Mapping[str, Effect] | None = None) -> A:
    """See ``holdfast.adapters.smolagents.durable``."""
    likeness = _durable_agent(agent, dict(effects or {}), None)
    likeness.hold_parts()
    call_options_of(_tool_names(likeness), effects)
    return likeness  # type: ignore[no-any-return]  # of a subclass


class DurableAgent:
    """The mixin for the class of a durable copy."""

    holdfast_position: AgentPosition
    holdfast_manager: AgentPosition | None
    holdfast_effects: dict[str, Effect]
    holdfast_turn: Any

    name: str | None
    model: Any
    tools: dict[str, Any]
    managed_agents: dict[str, Any]

    def hold_parts(self) -> None:
        """Make the model, the tools and the managed agents durable that are not; some may be new."""
        executor = getattr(self, "python_executor", None)
        if isinstance(executor, RemotePythonExecutor):
            raise Misuse(
                problem=f"a {type(executor).__name__} runs the agent's code, and its tools, in another place",
                advice='use executor_type="local"',
            )
        if not isinstance(self.model, DurableModel):
            has_streams = hasattr(self.model, "generate_stream")
            mixin = DurableStreamingModel if has_streams else DurableModel
            self.model = _likeness(self.model, mixin, holdfast_position=self.holdfast_position)
        self.tools = {name: self._tool(name, tool) for name, tool in self.tools.items()}
        self.managed_agents = {
            name: _durable_agent(agent, self.holdfast_effects, self.holdfast_position)
            for name, agent in self.managed_agents.items()
        }
        for agent in self.managed_agents.values():
            agent.hold_parts()

    def _tool(self, name: str, tool: Any) -> Any:
        if isinstance(tool, DurableTool) or is_plain(tool):
            return tool
        effects: dict[str, Effect] = {name: self.holdfast_effects.get(name, effect_of(tool))}
        call_options = call_options_of([name], effects)[name]
        return _likeness(
            tool, DurableTool, holdfast_position=self.holdfast_position, holdfast_options=call_options
        )

    def run(self, task: str, stream: bool = False, *args: Any, **options: Any) -> Any:
        """Run the agent; inside of a run, from the journal as far as it goes."""
        turns = turns_here("a durable agent")
        if turns is None:
            return super().run(task, stream, *args, **options)  # type: ignore[misc]
        self.hold_parts()
        turns.agent = self.name or turns.agent
        if stream:
            return self._streamed(turns, super().run(task, True, *args, **options))  # type: ignore[misc]
        with self._at(turns):
            return super().run(task, False, *args, **options)  # type: ignore[misc]

    def __call__(self, task: str, **options: Any) -> Any:
        """As a managed agent: in a scope of its own, one call after the other, as it has one memory."""
        around = self.holdfast_manager.turns if self.holdfast_manager else None
        if around is None:
            return super().__call__(task, **options)  # type: ignore[misc]
        digest = sha256("\0".join([task, repr(sorted(options.items()))]).encode()).hexdigest()[:8]
        with self.holdfast_turn, scoped(around, f"{self.name or 'agent'} {digest}", is_agent=True):
            return super().__call__(task, **options)  # type: ignore[misc]

    def _streamed(self, turns: Turns, steps: Iterator[Any]) -> Iterator[Any]:
        with self._at(turns):
            yield from steps

    @contextmanager
    def _at(self, turns: Turns) -> Iterator[None]:
        before, self.holdfast_position.turns = self.holdfast_position.turns, turns
        try:
            yield
        finally:
            self.holdfast_position.turns = before


def _durable_agent(agent: Any, effects: dict[str, Effect], manager: AgentPosition | None) -> Any:
    if isinstance(agent, DurableAgent):
        return agent
    return _likeness(
        agent,
        DurableAgent,
        holdfast_position=AgentPosition(),
        holdfast_manager=manager,
        holdfast_effects=effects,
        holdfast_turn=Lock(),
    )


def _tool_names(agent: Any) -> list[str]:
    return [*agent.tools, *(name for one in agent.managed_agents.values() for name in _tool_names(one))]


def _likeness(thing: Any, mixin: type, **state: Any) -> Any:
    """A copy of an object, of a class with the mixin."""
    kind: Any = _mixed(type(thing), mixin)  # type: ignore[arg-type]  # classes are hashable
    made = kind.__new__(kind)
    made.__dict__.update(vars(thing), **state)
    return made


@lru_cache
def _mixed(kind: type, mixin: type) -> type:
    return type(kind)(kind.__name__, (mixin, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})
