"""What every framework's adapter is made of: its model calls and its tool calls as steps of a run, in both ways of waiting.

A framework calls from wherever it likes: its own threads, tasks, event loops. A ``Seam`` remembers the place in the run that
the framework was started from, and gives it to calls that come without one. A tool that is a step by itself
(``@holdfast.tool``) stays the step: it is called, never wrapped a second time.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Self

from holdfast.codec.values import encode
from holdfast.engine.llm.model_call import Answer, Ask, ask_model
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.people.approvals import decide_about, usual_question
from holdfast.engine.run.call_site import HERE, Here, here_now
from holdfast.engine.run.store_session import held_runs
from holdfast.engine.steps.call_options import treat
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import AdapterNotInstalled, Misuse, NoCurrentRun, NotStorable
from holdfast.model.calls import READ, Effect, Treatment
from holdfast.model.markers import Act, AwaitedAct

COMPOSITE: Final = Treatment(effect="read", is_tool=True, manner="off")
"""A tool that is an agent itself: made of steps, which are answered one by one when it is called again."""
ASIDE: Final = READ._replace(manner="off")
"""A step that is no act of the agent: it does not count when the agent goes in circles."""


class Seam:
    """A place in a run that a framework's calls come back to."""

    __slots__ = ("_here",)

    def __init__(self, here: Here) -> None:
        self._here = here

    @classmethod
    def find(cls) -> "Self | None":
        """The seam at the current run; None outside of any."""
        here = here_now()
        return None if here is None else cls(here)

    @classmethod
    def get(cls, what: str) -> Self:
        """The seam at the current run. NoCurrentRun, naming what was to be done."""
        found = cls.find()
        if found is None:
            raise NoCurrentRun(what=what, held=", ".join(held_runs()) or "no run", problem="", advice="")
        return found

    @classmethod
    def find_free(cls) -> "Self | None":
        """As ``find``; None also inside of a once effect, which is a step as a whole: what it calls is called as it is."""
        here = here_now()
        return None if here is None or here.leaf else cls(here)

    @classmethod
    def find_or_refuse(cls, what: str) -> "Self | None":
        """As ``find``; NoCurrentRun while this process holds a run, since what was done would be lost with the process."""
        found = cls.find()
        return cls.get(what) if found is None and held_runs() else found

    @contextmanager
    def entered(self) -> Iterator[Here]:
        """Be in the run here, also in a thread or a loop that nobody has told of it."""
        here = here_now()
        if here is not None and here.tenure is self._here.tenure:
            yield here
            return
        token = HERE.set(self._here)
        try:
            yield self._here
        finally:
            HERE.reset(token)

    def leading(self) -> AbstractContextManager[Here]:
        """As ``entered``, for a model call: the one who makes it goes on from what was done before."""
        return self.entered()

    def model(self, ask: Ask, call: Callable[[Any], Any], line: Line | None = None) -> Answer:
        """The recorded answer to this request, or ``call(request)``, recorded before it is returned.

        ``line`` says how to wait for a provider that does not answer.
        """
        with self.leading() as here:
            return drive(ask_model(here.tenure, BLOCKING, ask, call, ask.request, line=line))

    async def model_async(
        self, ask: Ask, call: Callable[[Any], Awaitable[Any]], line: Line | None = None
    ) -> Answer:
        """As ``model``, awaiting."""
        with self.leading() as here:
            return await ask_model(here.tenure, AWAITING, ask, call, ask.request, line=line)

    def tool(
        self,
        treatment: Treatment,
        name: str,
        arguments: Mapping[str, Any],
        perform: Callable[[], Any],
        function: Callable[..., Any] | None = None,
    ) -> Any:
        """The recorded outcome of this call, or that of ``perform()``, recorded before it is returned.

        Which call it is, its name and arguments say; ``perform`` is how it is made, and may capture anything.
        ``function`` is what the user wrote, where the framework tells: its signature is a premise of the run.
        """
        with self.entered() as here:
            act = Act(perform, function)
            return drive(step(here.tenure, BLOCKING, treatment, name, act, (), dict(arguments)))

    async def tool_async(
        self,
        treatment: Treatment,
        name: str,
        arguments: Mapping[str, Any],
        perform: Callable[[], Awaitable[Any]],
        function: Callable[..., Any] | None = None,
    ) -> Any:
        """As ``tool``, awaiting."""
        with self.entered() as here:
            act = AwaitedAct(perform, function)
            return await step(here.tenure, AWAITING, treatment, name, act, (), dict(arguments))

    async def approve_async(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Have a person asked whether a tool may be called with exactly these arguments; the run is parked until one is.

        What the model is told instead of the tool's result where it was denied; empty where it was approved.
        """
        with self.entered() as here:
            given = dict(arguments)
            question = usual_question(name, given)
            return (await decide_about(here.tenure, AWAITING, name, given, question)).denial


def storable(value: Any) -> Any:
    """What a tool returned; as text, which is what a model is told of it, where it cannot be kept otherwise."""
    if isinstance(value, str):
        return value
    try:
        encode(value, what="result")
    except NotStorable:
        return str(value)
    return value


def is_step(function: object) -> bool:
    """Whether a function is a step by itself where a run is current: then it is called as it is, inside the run."""
    return isinstance(getattr(function, "treatment", None), Treatment)


def treatments(
    names: Iterable[str], effects: Mapping[str, Effect] | None, default: Effect = "once"
) -> dict[str, Treatment]:
    """How each of these tools is treated; what ``effects`` does not name is ``once``. Misuse if it names others."""
    known, effects = list(names), effects or {}
    if set(effects) - set(known):
        raise Misuse(
            problem=f"effects names {', '.join(sorted(set(effects) - set(known)))}, which is not among the tools",
            advice=f"the tools are: {', '.join(sorted(known)) or 'none'}",
        )
    return {name: treat(effects.get(name, default))._replace(is_tool=True) for name in known}


def not_installed(adapter: str, extra: str, error: ImportError) -> AdapterNotInstalled:
    """The error for an adapter whose framework cannot be imported."""
    package = (error.name or extra).partition(".")[0]
    return AdapterNotInstalled(adapter=adapter, package=package, extra=extra, problem=str(error), advice="")
