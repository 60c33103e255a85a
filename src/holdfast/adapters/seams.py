"""What every framework's adapter is made of: its model calls and its tool calls as steps of a run, in both ways of waiting.

A framework calls from wherever it likes: its own threads, tasks, event loops. A ``Seam`` remembers the place in the run that
the framework was started from, and gives it to calls that come without one. A tool that is a step by itself
(``@holdfast.tool``) stays the step: it is called, never wrapped a second time.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from holdfast.codec.values import encode
from holdfast.core.identity import scope_of
from holdfast.engine.context import HERE, Here, Trail, current_task, here_now, locate
from holdfast.engine.hands import AWAITING, BLOCKING, drive
from holdfast.engine.modelling import Answer, Ask, ask_model
from holdfast.engine.stepping import step
from holdfast.engine.treatments import treat
from holdfast.engine.workshop import held_runs
from holdfast.entrance import Opening, current
from holdfast.errors import AdapterNotInstalled, Misuse, NoCurrentRun, NotStorable
from holdfast.handles import AsyncRun, Run
from holdfast.model.calls import READ, Effect, Treatment
from holdfast.model.markers import Act, AwaitedAct

if TYPE_CHECKING:
    from asyncio import Future

T = TypeVar("T")

COMPOSITE: Final = Treatment(effect="read", is_tool=True, manner="off")
"""A tool that is an agent itself: made of steps, which are answered one by one when it is called again."""


ASIDE: Final = READ._replace(manner="off")
"""A step that is no act of the agent: it does not count when the agent goes in circles."""


class Line:
    """One agent's conversation in a scope of its own: its model calls follow one another, whichever threads they come from.

    A framework that moves an agent from thread to thread would else look like many tasks started side by side, which are
    judged for drift only when they are joined; on a line each model call stands after the one before. Tools stand beside
    each other, after the model call that asked for them. Two model calls at once stand beside each other too.
    """

    __slots__ = ("_free", "here")

    def __init__(self, here: Here) -> None:
        self.here = here
        self._free = Lock()
        here.trail.task = self

    @contextmanager
    def next(self) -> Iterator[None]:
        """Be the call that stands next on the line."""
        if not self._free.acquire(blocking=False):
            yield
            return
        trail = self.here.trail
        trail.task = current_task()
        try:
            yield
        finally:
            trail.task = self  # no thread's: the number of one that ended is given to another
            self._free.release()


LINE: ContextVar[Line | None] = ContextVar("holdfast line", default=None)


class Seam:
    """A place in a run that a framework's calls come back to."""

    __slots__ = ("_here",)

    def __init__(self, here: Here) -> None:
        self._here = here

    @classmethod
    def find(cls) -> "Seam | None":
        """The seam at the current run; None outside of any."""
        here = here_now()
        return None if here is None else cls(here)

    @classmethod
    def get(cls, what: str) -> "Seam":
        """The seam at the current run. NoCurrentRun, naming what was to be done."""
        found = cls.find()
        if found is None:
            raise NoCurrentRun(what=what, held=", ".join(held_runs()) or "no run", problem="", advice="")
        return found

    @classmethod
    def find_free(cls) -> "Seam | None":
        """As ``find``; None also inside of a once effect, which is a step as a whole: what it calls is called as it is."""
        here = here_now()
        return None if here is None or here.leaf else cls(here)

    @contextmanager
    def entered(self) -> Iterator[Here]:
        """Be in the run here, also in a thread or a loop that nobody has told of it."""
        here = here_now()
        inside = here if here is not None and here.tenure is self._here.tenure else self._here
        line = LINE.get()
        # Inside of a step that was called from the line, it is that step's place that counts.
        if line is not None and line.here.tenure is inside.tenure and line.here.scope == inside.scope:
            inside = line.here
        if inside is here:
            yield inside
            return
        token = HERE.set(inside)
        try:
            yield inside
        finally:
            HERE.reset(token)

    @contextmanager
    def scope(self, name: str, *, is_line: bool = False) -> Iterator[None]:
        """Be in the scope of this name; as a ``Line``, where one agent works in it."""
        with self.entered() as around:
            here, _ = locate(around.tenure)
            trail = Trail(current_task(), "")
            inside = Here(here.tenure, scope_of(here.scope, name), trail, here.depth, here.leaf)
            line = Line(inside) if is_line else None
            token, line_token = HERE.set(inside), LINE.set(line)
            try:
                yield
            finally:
                LINE.reset(line_token)
                HERE.reset(token)

    @contextmanager
    def _asking(self) -> Iterator[Here]:
        """Be where the next model call stands."""
        with self.entered() as here:
            line = LINE.get()
            if line is None or line.here is not here:
                yield here
                return
            with line.next():
                yield here

    def model(self, ask: Ask, call: Callable[[Any], Any]) -> Answer:
        """The recorded answer to this request, or ``call(request)``, recorded before it is returned."""
        with self._asking() as here:
            return drive(ask_model(here.tenure, BLOCKING, ask, call, ask.request))

    async def model_async(self, ask: Ask, call: Callable[[Any], Awaitable[Any]]) -> Answer:
        """As ``model``, awaiting."""
        with self._asking() as here:
            return await ask_model(here.tenure, AWAITING, ask, call, ask.request)

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


class Turns:
    """One agent's model calls: they follow one another, whichever tasks the framework makes them from.

    Each in a task of its own, they would look like calls side by side, whose drift is found out about when they are
    joined: too late for a model that must not be asked anything else than before.
    """

    __slots__ = ("_here", "_is_aside", "_last", "agent")

    def __init__(self, seam: Seam) -> None:
        self.agent = "model"
        """Whose turn it is, where a model is not told who asks."""
        with seam.entered() as here:
            self._here, point = locate(here.tenure)
        self._last, self._is_aside = point.after, point.forked

    @contextmanager
    def next(self) -> Iterator[None]:
        """Be where the next call stands: behind the last; the first one beside others, if the agent runs beside others."""
        around, task = self._here, object() if self._is_aside else current_task()
        inside = Here(around.tenure, around.scope, Trail(task, self._last), around.depth, around.leaf)
        token, self._is_aside = HERE.set(inside), False
        try:
            yield
        finally:
            self._last = (HERE.get() or inside).trail.last
            HERE.reset(token)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The turns that are taken here. What comes afterwards stands behind the last of them."""
        token = TURNS.set(self)
        try:
            yield
        finally:
            TURNS.reset(token)
            self._here.trail.last = self._last


TURNS: ContextVar[Turns] = ContextVar("holdfast turns")


class Framed(Generic[T]):
    """A block in which a framework's calls are steps: in a run that it enters, or in the current one.

    Used with ``with`` (gives ``Run``) or ``async with`` (gives ``AsyncRun``), as ``holdfast.run(...)`` is.
    """

    def __init__(self, opening: Opening | None, frame: ContextVar[T | None], value: T) -> None:
        self._opening, self._frame, self._value = opening, frame, value
        self._token: Token[T | None] | None = None

    def __enter__(self) -> Run:
        run: Any = current() if self._opening is None else self._opening.__enter__()
        self._token = self._frame.set(self._value)
        return run  # type: ignore[no-any-return]  # the current one may be of the other kind

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._reset()
        return self._opening is not None and self._opening.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncRun:
        run: Any = current() if self._opening is None else await self._opening.__aenter__()
        self._token = self._frame.set(self._value)
        return run  # type: ignore[no-any-return]  # the current one may be of the other kind

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._reset()
        return self._opening is not None and await self._opening.__aexit__(kind, error, trace)

    def _reset(self) -> None:
        assert self._token is not None
        self._frame.reset(self._token)


class Flight:
    """Calls that a framework makes side by side, and cancels when one of them raises.

    A cancelled effect is in doubt: so whoever raises lets the others come to their ends first.
    """

    __slots__ = ("_aloft",)

    def __init__(self) -> None:
        self._aloft: set[Future[None]] = set()

    async def carry(self, call: Awaitable[T]) -> T:
        """What the call comes to."""
        import asyncio

        landed: Future[None] = asyncio.get_running_loop().create_future()
        self._aloft.add(landed)
        try:
            return await call
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._land(landed)
            while self._aloft:
                await asyncio.wait(self._aloft)
            raise
        finally:
            self._land(landed)

    def _land(self, landed: "Future[None]") -> None:
        self._aloft.discard(landed)
        if not landed.done():
            landed.set_result(None)


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
