"""``durable(crew)``: the kickoffs of a crew in a run; a flow's and an agent's too."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, Generic, TypeVar

from crewai import Crew  # pyright: ignore[reportMissingImports]
from crewai.agents.agent_builder.base_agent import BaseAgent  # pyright: ignore[reportMissingImports]

from holdfast.adapters.crewai.parts import mixin_of
from holdfast.adapters.crewai.requests import step_name
from holdfast.adapters.crewai.sessions import SESSION, Session, place_of
from holdfast.adapters.seams import Seam
from holdfast.entrance import Opening
from holdfast.entrance import run as enter_run
from holdfast.errors import Misuse
from holdfast.model.calls import Effect
from holdfast.storehandle import Store

T = TypeVar("T")
Place = str | os.PathLike[str] | Store | None
BLOCKING: Final = {"kickoff", "kickoff_for_each"}
AWAITING: Final = {"kickoff_async", "akickoff", "kickoff_for_each_async", "akickoff_for_each"}


def durable(
    subject: T,
    *,
    run: str | None = None,
    store: Place = None,
    effects: Mapping[str, Effect] | None = None,
    **options: Any,
) -> "Durable[T]":
    """The crew (or flow, or agent) with its kickoffs in a run: started, resumed, or, if it is finished, replayed.

    Without ``run`` they belong to the current run. ``effects`` says of tools, by name, whether they ``"read"``, are
    ``"idempotent"``, or must happen ``"once"``, which all others must. ``options`` are those of ``holdfast.run``.
    """
    if run is None and (store is not None or options):
        raise Misuse(
            problem="durable(...) was given a store or options, and no run to use them for",
            advice='name the run: durable(crew, run="…", store=…)',
        )
    opening = None if run is None else partial(enter_run, run, store=store)
    return Durable(subject, opening, effects, options)


class Durable(Generic[T]):
    """A crew, flow or agent that is kicked off in a run; everything else about it is as it was."""

    def __init__(
        self,
        subject: T,
        opening: Callable[..., Opening] | None,
        effects: Mapping[str, Effect] | None,
        options: dict[str, Any],
    ) -> None:
        self._subject, self._effects = subject, effects
        self._new, self._options = opening, options
        self._is_entered = False
        self._block: Any = None
        self._result: Any = None

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._subject, name)
        kick = self._kick if name in BLOCKING else self._kick_async if name in AWAITING else None
        return own if kick is None else partial(kick, own)

    def _kick(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        opening = self._opening(args, kwargs)
        if getattr(self._subject, "stream", False):
            return self._streamed(own(*args, **kwargs), opening)
        with self._running(opening) as made:
            made.append(own(*args, **kwargs))
        return made[0]

    async def _kick_async(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        opening = self._opening(args, kwargs)
        if getattr(self._subject, "stream", False):
            return self._streamed(await own(*args, **kwargs), opening)
        async with self._running_async(opening) as made:
            made.append(await own(*args, **kwargs))
        return made[0]

    def _opening(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Opening | None:
        """The run to enter for a kickoff with these arguments; None where one is entered already."""
        if self._new is None or self._is_entered:
            return None
        given = kwargs.get("inputs", args[0] if args else None)
        return self._new(**{"inputs": given, **self._options})

    @contextmanager
    def _running(self, opening: Opening | None) -> Iterator[list[Any]]:
        made: list[Any] = []
        with nullcontext() if opening is None else opening as run:
            with self._session():
                yield made
            self._result = told(made[0])
            if run is not None:
                run.finish(self._result)

    @asynccontextmanager
    async def _running_async(self, opening: Opening | None) -> AsyncIterator[list[Any]]:
        made: list[Any] = []
        async with nullcontext() if opening is None else opening as run:
            with self._session():
                yield made
            self._result = told(made[0])
            if run is not None:
                await run.finish(self._result)

    def _session(self) -> AbstractContextManager[None]:
        session = Session(Seam.get("a durable kickoff"), self._effects, mixin_of)
        session.is_streamed = bool(getattr(self._subject, "stream", False))
        return session.current(partial(_held, session, self._subject, SESSION.get()))

    # -- streams: the run is entered when somebody begins to read, and left at the end ------------------------------

    def _streamed(self, output: Any, opening: Opening | None) -> Any:
        if isinstance(output, list):
            if opening is not None:
                raise Misuse(
                    problem="each of several streams cannot enter the run by itself",
                    advice='enter it around them: with durable(crew, run="…") as crew: …',
                )
            return [self._streamed(one, None) for one in output]
        if output._sync_iterator is not None:  # noqa: SLF001 - CrewAI has no other place to stand in between
            output._sync_iterator = self._read(output, output._sync_iterator, opening)  # noqa: SLF001
        else:
            output._async_iterator = self._read_async(output, output._async_iterator, opening)  # noqa: SLF001
        return output

    def _read(self, output: Any, chunks: Iterator[Any], opening: Opening | None) -> Iterator[Any]:
        with self._running(opening) as made:
            yield from chunks
            made.append(output._result)  # noqa: SLF001 - its own is not complete yet

    async def _read_async(
        self, output: Any, chunks: AsyncIterator[Any], opening: Opening | None
    ) -> AsyncIterator[Any]:
        async with self._running_async(opening) as made:
            async for chunk in chunks:
                yield chunk
            made.append(output._result)  # noqa: SLF001

    # -- the run as a block, for several kickoffs ---------------------------------------------------------------------

    def __enter__(self) -> "Durable[T]":
        self._block = self._entered()
        self._block.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._block.__exit__(*error)

    async def __aenter__(self) -> "Durable[T]":
        self._block = self._entered_async()
        await self._block.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._block.__aexit__(*error)

    @contextmanager
    def _entered(self) -> Iterator[None]:
        with self._named() as run:
            self._is_entered = True
            try:
                yield
            finally:
                self._is_entered = False
            run.finish(self._result)

    @asynccontextmanager
    async def _entered_async(self) -> AsyncIterator[None]:
        async with self._named() as run:
            self._is_entered = True
            try:
                yield
            finally:
                self._is_entered = False
            await run.finish(self._result)

    def _named(self) -> Opening:
        opening = self._opening((), {})
        if opening is None:
            raise Misuse(
                problem="durable(...) has no run to enter",
                advice='name one: with durable(crew, run="…") as crew: …',
            )
        return opening


@contextmanager
def _held(session: Session, subject: Any, around: Session | None) -> Iterator[None]:
    """The subject's parts in the session; of a flow, the crews that it kicks off."""
    if isinstance(subject, Crew):
        labels = session.hold_crew(subject, "" if around is None else crew_place(subject))
        if around is None:
            session.mark("plan", steps=labels)
        yield
    elif isinstance(subject, BaseAgent):
        session.hold_agent(subject)
        with session.seam.scope(step_name(subject.role), is_line=True):
            yield
    else:
        with _crews_held(session):
            yield


@contextmanager
def _crews_held(session: Session) -> Iterator[None]:
    try:
        from crewai.hooks.dispatch import (  # pyright: ignore[reportMissingImports]
            InterceptionPoint,
            scoped_hooks,
        )
    except ImportError:  # before 1.15: crews say it themselves, ``durable(crew)``
        yield
        return

    def begin(context: Any) -> None:
        if context.crew is not None and SESSION.get() is session:
            session.hold_crew(context.crew, crew_place(context.crew))

    with scoped_hooks({InterceptionPoint.EXECUTION_START: [begin]}):
        yield


def crew_place(crew: Any) -> str:
    """The place of a crew among others that may be at work at the same time."""
    return place_of(crew.name or "crew", *(task.description for task in crew.tasks))


def told(output: Any) -> Any:
    """What came of a kickoff, as the run records it."""
    if isinstance(output, list):
        return [told(one) for one in output]
    if getattr(output, "raw", None) is None:
        return output
    parsed, usage = output.pydantic, getattr(output, "token_usage", None) or output.usage_metrics
    return {
        "raw": output.raw,
        "json": getattr(output, "json_dict", None) or (parsed and parsed.model_dump(mode="json")),
        "usage": usage.model_dump() if hasattr(usage, "model_dump") else usage,
    }
