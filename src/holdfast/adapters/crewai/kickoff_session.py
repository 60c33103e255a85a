"""One kickoff in a run: the objects it holds of a crew, the scopes of its tasks, and what stopped it."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from itertools import count
from typing import Any, Final

from crewai.utilities.llm_utils import create_llm  # pyright: ignore[reportMissingImports]
from crewai.utilities.planning_handler import CrewPlanner  # pyright: ignore[reportMissingImports]
from crewai.utilities.string_utils import sanitize_tool_name  # pyright: ignore[reportMissingImports]

from holdfast.adapters.crewai.llm_requests import LABEL_CHARS, step_name, task_label
from holdfast.adapters.shared.class_swap import Hold, only_holder
from holdfast.adapters.shared.journaled_calls import ASIDE, RunPosition, call_options_of
from holdfast.adapters.shared.swallowed_stops import SwallowedStops
from holdfast.adapters.shared.turns import Turns
from holdfast.core.text.value_text import one_line
from holdfast.engine.run.store_session import masked
from holdfast.engine.steps.marks import mark
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import Misuse
from holdfast.model.calls import CallOptions, Effect

SESSION: ContextVar["Session | None"] = ContextVar("holdfast crewai session", default=None)
_LLMS: Final = ("llm", "function_calling_llm", "manager_llm", "planning_llm", "chat_llm")
_ELSEWHERE: Final = ("mcps", "apps")
"""Attributes that give an agent tools which are unknown before its task starts."""

_REFUSED: Final = {
    "a2a": "a remote agent does its work",
    "adapted_agent": "another framework makes its model calls",
}


def session_of(thing: Any) -> "Session | None":
    """The session in which an object is called; None if it is in none, and works as before."""
    # CrewAI starts threads without our context variable: ask the object, if only one run holds it.
    return SESSION.get() or only_holder(thing)


class Session(SwallowedStops):
    """One kickoff in a run."""

    def __init__(
        self,
        seam: RunPosition,
        effects: Mapping[str, Effect] | None,
        mixin_of: Callable[[Any], type | None],
        *,
        is_streamed: bool,
    ) -> None:
        """``is_streamed``: CrewAI works in its own thread, and reports to the reader of the stream."""
        super().__init__()
        self._seam, self.is_streamed = seam, is_streamed
        self.places: dict[int, tuple[str, str]] = {}
        self.copies = count(1)
        self._effects: dict[str, Effect] = {
            sanitize_tool_name(name): how for name, how in (effects or {}).items()
        }
        self._hold = Hold(self, mixin_of)

    @property
    def seam(self) -> RunPosition:
        """The place in the run of a call made now."""
        return Turns.current(self._seam)

    @contextmanager
    def current(self) -> Iterator["Session"]:
        """Enter the session.

        At its end all objects are released, and a stop-signal is raised again if it was swallowed.
        """
        token = SESSION.set(self)
        try:
            with self.raised_at_end():
                yield self
        finally:
            if SESSION.get() is self:  # a stream may be left in another context than it was entered
                SESSION.reset(token)
            self._hold.let_go()

    def mark(self, name: str, **content: Any) -> None:
        """Record what the crew does besides its calls; a replay consumes it."""
        told = {
            key: one_line(masked(text), 500) if isinstance(text, str) else text
            for key, text in content.items()
        }
        with self.guarded(), self.seam.entered() as here:
            drive(mark(here.held, BLOCKING, name, told))

    def aside(
        self,
        name: str,
        given: Mapping[str, Any],
        perform: Callable[[], Any],
        call_options: CallOptions = ASIDE,
    ) -> Any:
        """A step of CrewAI itself, that is no action of the agent."""
        with self.guarded():
            return self.seam.tool(call_options, name, given, perform)

    async def aside_async(
        self, name: str, given: Mapping[str, Any], perform: Callable[[], Awaitable[Any]]
    ) -> Any:
        """As ``aside``, awaiting."""
        with self.guarded():
            return await self.seam.tool_async(ASIDE, name, given, perform)

    def call_options(self, name: str) -> CallOptions:
        """The options of the tool of this name."""
        return call_options_of([name], {name: self._effects[name]} if name in self._effects else None)[name]

    def hold_crew(self, crew: Any, place: str = "") -> list[str]:
        """Hold a crew: its tasks, which get their places, its agents, their LLMs and tools.

        Returns the tasks' names.
        """
        if crew.planning:
            crew.planning_llm = CrewPlanner([], crew.planning_llm).planning_agent_llm  # or the default
        for name in ("manager_llm", "planning_llm"):
            if isinstance(getattr(crew, name), str):
                setattr(crew, name, create_llm(getattr(crew, name)))
        agents, tools = _agents_and_tools(crew)
        self.hold_agent(crew, tools)
        for agent in agents:
            self.hold_agent(agent)
        self.hold(crew, *crew.tasks)
        labels: list[str] = []
        for task in crew.tasks:
            label = task_label(task)
            labels.append(label if label not in labels else step_name(f"{label} ({len(labels) + 1})"))
            self.places[id(task)] = (place, labels[-1])
        return labels

    def hold(self, *things: Any) -> None:
        """Hold objects."""
        self._hold.take(*things)

    def hold_agent(self, agent: Any, tools: Iterable[Any] = ()) -> None:
        """Hold an agent's LLMs, memory and knowledge, its own tools, and those that it gets for a task.

        Misuse for an agent that calls no LLM of CrewAI.
        """
        fields = getattr(
            agent, "__dict__", {}
        )  # bypasses the descriptors, which warn about deprecated fields
        for name, whose in _REFUSED.items():
            if fields.get(name):
                raise Misuse(
                    problem=f"the agent {agent.role!r} has {name}: {whose}, which Holdfast cannot record",
                    advice=f"leave {name} out, or call that agent inside of a tool",
                )
        planner = getattr(fields.get("planning_config"), "llm", None)
        llms = [fields.get(name) for name in _LLMS]
        self.hold(*llms, planner, fields.get("knowledge"), *(fields.get("tools") or ()), *tools)
        self.hold_memory(fields.get("memory"))

    def hold_memory(self, memory: Any) -> None:
        """Hold a memory; of a part of a memory, the whole."""
        self.hold(getattr(memory, "_memory", None) or memory)

    def check_effects(self, crew: Any) -> None:
        """Misuse for an effect of a tool that the crew does not have."""
        agents, tools = _agents_and_tools(crew)
        if not any(getattr(agent, name, None) for agent in agents for name in _ELSEWHERE):
            every = [*tools, *(tool for agent in agents for tool in agent.tools or ())]
            call_options_of([sanitize_tool_name(tool.name) for tool in every], self._effects)


def _agents_and_tools(crew: Any) -> tuple[list[Any], list[Any]]:
    """The agents of a crew, and the tools of its tasks."""
    agents = [crew.manager_agent, *crew.agents, *(task.agent for task in crew.tasks)]
    return [agent for agent in agents if agent is not None], [
        tool for task in crew.tasks for tool in task.tools or ()
    ]


def place_of(text: str, *more: object) -> str:
    """The name of a scope: its display name, and what distinguishes it from others of that name."""
    text = masked(text)
    digest = sha256("\0".join([text, *map(str, more)]).encode()).hexdigest()[:8]
    return f"{step_name(text[:LABEL_CHARS])} {digest}"


def crew_place(crew: Any) -> str:
    """The scope of a crew among others that may run at the same time."""
    return place_of(crew.name or "crew", *(task.description for task in crew.tasks))
