"""The base of every framework adapter: model calls and tool calls as steps of a run, blocking and async.

A framework calls from its own threads, tasks and event loops. A ``Seam`` remembers the place in the run where
the framework was started, and gives it to calls without one. A tool that is a step by itself
(``@holdfast.tool``) stays the step: it is called, never wrapped again.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Self

from holdfast.codec.values import encode
from holdfast.engine.llm.model_call import Answer, Ask, ask_model
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.people.approvals import decide_about, usual_question
from holdfast.engine.run.call_site import CALL_SITE, CallSite, here_now
from holdfast.engine.run.store_session import held_runs
from holdfast.engine.steps.call_options import treat
from holdfast.engine.steps.step import step
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import AdapterNotInstalled, Misuse, NoCurrentRun, NotStorable
from holdfast.model.calls import READ, CallOptions, Effect
from holdfast.model.markers import Act, AwaitedAct

COMPOSITE: Final = CallOptions(effect="read", is_tool=True, manner="off")
"""A tool that is an agent itself: made of steps, which are replayed one by one when it is called again."""
ASIDE: Final = READ._replace(manner="off")
"""A step that is not an action of the agent: loop detection ignores it."""


class RunPosition:
    """A place in a run to which a framework's calls return."""

    __slots__ = ("_here",)

    def __init__(self, here: CallSite) -> None:
        self._here = here

    @classmethod
    def find(cls) -> "Self | None":
        """The seam at the current run; None outside of a run."""
        here = here_now()
        return None if here is None else cls(here)

    @classmethod
    def get(cls, what: str) -> Self:
        """The seam at the current run. NoCurrentRun with the name of the call."""
        found = cls.find()
        if found is None:
            raise NoCurrentRun(what=what, held=", ".join(held_runs()) or "no run", problem="", advice="")
        return found

    @classmethod
    def find_free(cls) -> "Self | None":
        """As ``find``; None also inside of a once effect, which is one step.

        Its inner calls are not steps.
        """
        here = here_now()
        return None if here is None or here.leaf else cls(here)

    @classmethod
    def find_or_refuse(cls, what: str) -> "Self | None":
        """As ``find``; NoCurrentRun while this process holds a run: the call would not be recorded."""
        found = cls.find()
        return cls.get(what) if found is None and held_runs() else found

    @contextmanager
    def entered(self) -> Iterator[CallSite]:
        """Enter the run at this place, also in a thread or a loop without our context."""
        here = here_now()
        if here is not None and here.held is self._here.held:
            yield here
            return
        token = CALL_SITE.set(self._here)
        try:
            yield self._here
        finally:
            CALL_SITE.reset(token)

    def leading(self) -> AbstractContextManager[CallSite]:
        """As ``entered``, for a model call: it continues after the calls before it."""
        return self.entered()

    def model(self, ask: Ask, call: Callable[[Any], Any], line: Line | None = None) -> Answer:
        """The recorded answer to this request, or ``call(request)``, recorded before it is returned.

        ``line`` says how to wait for a provider that does not answer.
        """
        with self.leading() as here:
            return drive(ask_model(here.held, BLOCKING, ask, call, ask.request, line=line))

    async def model_async(
        self, ask: Ask, call: Callable[[Any], Awaitable[Any]], line: Line | None = None
    ) -> Answer:
        """As ``model``, awaiting."""
        with self.leading() as here:
            return await ask_model(here.held, AWAITING, ask, call, ask.request, line=line)

    def tool(
        self,
        call_options: CallOptions,
        name: str,
        arguments: Mapping[str, Any],
        perform: Callable[[], Any],
        function: Callable[..., Any] | None = None,
    ) -> Any:
        """The recorded outcome of this call, or that of ``perform()``, recorded before it is returned.

        Its name and arguments identify the call; ``perform`` makes it, and may capture anything. ``function``
        is the user's function, if the framework has it: its signature is a premise of the run.
        """
        with self.entered() as here:
            act = Act(perform, function)
            return drive(step(here.held, BLOCKING, call_options, name, act, (), dict(arguments)))

    async def tool_async(
        self,
        call_options: CallOptions,
        name: str,
        arguments: Mapping[str, Any],
        perform: Callable[[], Awaitable[Any]],
        function: Callable[..., Any] | None = None,
    ) -> Any:
        """As ``tool``, awaiting."""
        with self.entered() as here:
            act = AwaitedAct(perform, function)
            return await step(here.held, AWAITING, call_options, name, act, (), dict(arguments))

    async def approve_async(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Ask a person whether a tool may be called with exactly these arguments.

        The run is parked until they answer.

        Returns the message to the model after a denial; empty after an approval.
        """
        with self.entered() as here:
            given = dict(arguments)
            question = usual_question(name, given)
            return (await decide_about(here.held, AWAITING, name, given, question)).denial


def storable(value: Any) -> Any:
    """A tool's result; as text, which is what a model sees of it, if it cannot be stored otherwise."""
    if isinstance(value, str):
        return value
    try:
        encode(value, what="result")
    except NotStorable:
        return str(value)
    return value


def is_step(function: object) -> bool:
    """Whether a function is a step by itself inside a run: then it is called unchanged."""
    return isinstance(getattr(function, "call_options", None), CallOptions)


def call_options_of(
    names: Iterable[str], effects: Mapping[str, Effect] | None, default: Effect = "once"
) -> dict[str, CallOptions]:
    """The options of each of these tools; the default is ``once``. Misuse if ``effects`` names others."""
    known, effects = list(names), effects or {}
    if set(effects) - set(known):
        raise Misuse(
            problem=f"effects names {', '.join(sorted(set(effects) - set(known)))}, which is not among the "
            "tools",
            advice=f"the tools are: {', '.join(sorted(known)) or 'none'}",
        )
    return {name: treat(effects.get(name, default))._replace(is_tool=True) for name in known}


def not_installed(adapter: str, extra: str, error: ImportError) -> AdapterNotInstalled:
    """The error for an adapter whose framework cannot be imported."""
    package = (error.name or extra).partition(".")[0]
    return AdapterNotInstalled(adapter=adapter, package=package, extra=extra, problem=str(error), advice="")
