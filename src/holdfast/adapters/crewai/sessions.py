"""A kickoff's hold on the objects of a crew: while it lasts, they are of a class that knows the journal; afterwards they are as before.

Instances change their class, classes are left alone: a copy of a durable LLM is one too, and nobody else's is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from hashlib import sha256
from itertools import count
from threading import Lock
from typing import Any, Final, NamedTuple

from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool  # pyright: ignore[reportMissingImports]
from crewai.utilities.llm_utils import create_llm  # pyright: ignore[reportMissingImports]
from crewai.utilities.string_utils import sanitize_tool_name  # pyright: ignore[reportMissingImports]

from holdfast.adapters.crewai.requests import step_name
from holdfast.adapters.seams import Seam, treatments
from holdfast.engine.hands import BLOCKING, drive
from holdfast.engine.marks import mark
from holdfast.errors import StopSignal
from holdfast.model.calls import Effect, Treatment

SESSION: ContextVar["Session | None"] = ContextVar("holdfast crewai session", default=None)
_LLMS: Final = ("llm", "function_calling_llm")
_CREW_LLMS: Final = ("manager_llm", "planning_llm", "chat_llm", "function_calling_llm")
_ELSEWHERE: Final = ("mcps", "apps")
"""What gives an agent tools that nobody knows before its task begins."""


class Held(NamedTuple):
    """An object that sessions hold, and the class it had before."""

    thing: Any
    kind: type
    sessions: list["Session"]


_held: dict[int, Held] = {}
_holding: Final = Lock()


def session_of(thing: Any) -> "Session | None":
    """The session in which an object is called; None where it is nobody's, and does what it always did."""
    session = SESSION.get()
    if session is not None:
        return session
    # A thread that was not told: the object knows, as long as only one run has it.
    held = _held.get(id(thing))
    return held.sessions[0] if held is not None and len(held.sessions) == 1 else None


class Session:
    """One kickoff in a run."""

    def __init__(
        self, seam: Seam, effects: Mapping[str, Effect] | None, mixin_of: Callable[[Any], type | None]
    ) -> None:
        """``mixin_of`` tells what makes an object durable; None for one that is no part of a crew."""
        self.seam = seam
        self.stop: StopSignal | None = None
        self.is_streamed = False
        """Whether CrewAI does the work in a thread of its own, and whoever reads the stream is told what came of it."""
        self.copies = count(1)
        self.places: dict[int, tuple[str, str]] = {}
        self._effects = {sanitize_tool_name(name): effect for name, effect in (effects or {}).items()}
        self._treatments: dict[str, Treatment] = {}
        self._mixin_of = mixin_of
        self._mine: list[int] = []

    @contextmanager
    def current(self, held: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        """Be in the session with what is held; at its end all is let go, and what stopped the run is raised, whoever caught it."""
        token = SESSION.set(self)
        try:
            with held():
                yield
        except Exception as error:
            if self.stop is not None:
                raise self.stop from error
            raise
        finally:
            if SESSION.get() is self:
                SESSION.reset(token)
            self._let_go()
        if self.stop is not None:
            raise self.stop

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Make a call, unless the run was stopped; and remember it if this call stops it."""
        if self.stop is not None:
            raise self.stop
        try:
            yield
        except StopSignal as stop:
            self.stop = self.stop or stop
            raise

    def mark(self, name: str, **content: Any) -> None:
        """Record what the crew does beside its calls; on replay it is consumed."""
        with self.guarded(), self.seam.entered() as here:
            drive(mark(here.tenure, BLOCKING, name, content))

    def treatment(self, tool: Any) -> Treatment:
        """How a tool is treated."""
        name = sanitize_tool_name(tool.name)
        if name not in self._treatments:
            wanted = {name: self._effects[name]} if name in self._effects else None
            self._treatments |= treatments([name], wanted)
        return self._treatments[name]

    # -- taking hold ----------------------------------------------------------------------------------------------

    def hold_crew(self, crew: Any, place: str = "") -> list[str]:
        """Take hold of a crew: its tasks, which are given their places, its agents, their LLMs and tools. The tasks' names."""
        if crew.manager_llm is not None:
            crew.manager_llm = create_llm(crew.manager_llm)
        if crew.planning and crew.planning_llm is not None:
            crew.planning_llm = create_llm(crew.planning_llm)
        agents = [*crew.agents, *(task.agent for task in crew.tasks), crew.manager_agent]
        for agent in agents:
            self.hold_agent(agent)
        tools = [tool for task in crew.tasks for tool in task.tools or ()]
        llms = [crew.__dict__.get(name) for name in _CREW_LLMS]
        self.hold(crew, *crew.tasks, *tools, *llms)
        self._check_effects(agents, tools)
        labels: list[str] = []
        for task in crew.tasks:
            label = step_name(task.name or task.description[:60])
            labels.append(label if label not in labels else step_name(f"{label} ({len(labels) + 1})"))
            self.places[id(task)] = (place, labels[-1])
        return labels

    def hold_agent(self, agent: Any, tools: Iterable[Any] = ()) -> None:
        """Take hold of an agent's LLMs, its own tools, and those that it is given for a task."""
        fields = getattr(
            agent, "__dict__", {}
        )  # past the descriptors, which warn that some of them are deprecated
        llms = [fields.get(name) for name in _LLMS]
        llms.append(getattr(getattr(agent, "planning_config", None), "llm", None))
        self.hold(*llms, *(getattr(agent, "tools", None) or ()), *tools)

    def hold(self, *things: Any) -> None:
        """Take hold of objects; of anything that is none of a crew's parts, nothing is taken."""
        for thing in things:
            kind, mixin = type(thing), self._mixin_of(thing)
            if mixin is None:
                continue
            with _holding:
                held = _held.setdefault(id(thing), Held(thing, kind, []))
                if self not in held.sessions:
                    held.sessions.append(self)
                    self._mine.append(id(thing))
                if not issubclass(kind, mixin):
                    object.__setattr__(thing, "__class__", _durable(kind, mixin))

    def _let_go(self) -> None:
        with _holding:
            for number in self._mine:
                thing, kind, sessions = _held[number]
                sessions.remove(self)
                if not sessions:
                    object.__setattr__(thing, "__class__", kind)
                    del _held[number]
            self._mine.clear()

    def _check_effects(self, agents: Iterable[Any], tools: Iterable[Any]) -> None:
        """Misuse for an effect of a tool that is not there."""
        known = [agent for agent in agents if agent is not None]
        if any(getattr(agent, name, None) for agent in known for name in _ELSEWHERE):
            return
        every = [*tools, *(tool for agent in known for tool in agent.tools or ())]
        treatments({sanitize_tool_name(tool.name) for tool in every}, self._effects)


@lru_cache(maxsize=None)
def _durable(kind: type, mixin: type) -> type:
    make: Callable[..., type] = type(kind)
    # The name is put back afterwards: CrewAI's registries would else take it for the user's own class.
    namespace = {
        "__module__": kind.__module__,
        "__qualname__": f"Durable{kind.__qualname__}",
        "__doc__": kind.__doc__,
    }
    durable = make(kind.__name__, (mixin, kind), namespace)
    durable.__qualname__ = kind.__qualname__
    return durable


def is_delegation(tool: Any) -> bool:
    """Whether a tool is another agent: made of steps, and none itself."""
    return isinstance(tool, BaseAgentTool)


def place_of(text: str, *more: object) -> str:
    """The name of a scope: what people call it, and what tells it from others of that name."""
    mark_of = sha256("\0".join([text, *map(str, more)]).encode()).hexdigest()[:8]
    return step_name(text[:60]) + f" {mark_of}"
