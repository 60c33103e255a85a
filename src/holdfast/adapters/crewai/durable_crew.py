"""``durable(crew)``: kickoffs of a crew, a flow or an agent inside a run."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, Generic, TypeVar

from crewai.agents.agent_builder.base_agent import BaseAgent  # pyright: ignore[reportMissingImports]
from crewai.core.providers import human_input  # pyright: ignore[reportMissingImports]
from crewai.crew import Crew  # pyright: ignore[reportMissingImports]

from holdfast.adapters.crewai.human_input import JournaledReview
from holdfast.adapters.crewai.kickoff_session import SESSION, Session, crew_place
from holdfast.adapters.crewai.llm_requests import step_name
from holdfast.adapters.crewai.wrapped_classes import mixin_of
from holdfast.adapters.shared.journaled_calls import RunPosition
from holdfast.adapters.shared.turns import scoped
from holdfast.api.enter import Opening
from holdfast.api.enter import run as enter_run
from holdfast.api.store.store import Store, session_at
from holdfast.codec.values import canonical
from holdfast.core.steps.call_difference import arguments_diff
from holdfast.engine.log import log
from holdfast.errors import InputsChanged, Misuse
from holdfast.model.calls import Effect

T = TypeVar("T")
BLOCKING: Final = {"kickoff", "kickoff_for_each"}
AWAITING: Final = {"kickoff_async", "akickoff", "kickoff_for_each_async", "akickoff_for_each"}

_INPUTS: Final = "kickoff inputs"


def durable(
    subject: T,
    *,
    run: str | None = None,
    store: "str | os.PathLike[str] | Store | None" = None,
    effects: Mapping[str, Effect] | None = None,
    **options: Any,
) -> "Durable[T]":
    """See ``holdfast.adapters.crewai.durable``."""
    if run is not None:
        return Durable(subject, effects, partial(enter_run, run, store=store), options, store)
    if store is not None or options:
        raise Misuse(
            problem="durable(...) was given a store or options, and no run to use them for",
            advice='name the run: durable(crew, run="…", store=…)',
        )
    return Durable(subject, effects)


class Durable(Generic[T]):
    """A crew, flow or agent whose kickoffs are in a run; everything else about it is unchanged."""

    def __init__(
        self,
        subject: T,
        effects: Mapping[str, Effect] | None,
        enter: Callable[..., Opening] | None = None,
        options: Mapping[str, Any] | None = None,
        store: Any = None,
    ) -> None:
        """``enter`` gives the run in ``store``, with ``options``; without it, the current run is used."""
        self._subject, self._effects = subject, effects
        self._enter, self._options, self._store = enter, options or {}, store
        self._block: Any = None

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._subject, name)
        kick = self._kick if name in BLOCKING else self._kick_async if name in AWAITING else None
        return own if kick is None else partial(kick, own)

    # As a context manager: it enters the run, and kickoffs inside the block belong to that run.

    def __enter__(self) -> "Durable[T]":
        self._block = self._opening(None)
        self._block.__enter__()
        return Durable(self._subject, self._effects)

    def __exit__(self, *error: object) -> bool | None:
        left: bool | None = self._block.__exit__(*error)
        return left

    async def __aenter__(self) -> "Durable[T]":
        self._block = self._opening(None)
        await self._block.__aenter__()
        return Durable(self._subject, self._effects)

    async def __aexit__(self, *error: object) -> bool | None:
        left: bool | None = await self._block.__aexit__(*error)
        return left

    def _kick(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("inputs", args[0] if args else None)
        if getattr(self._subject, "stream", False):
            return self._streamed(own(*args, **kwargs), given)
        with self._running(given) as made:
            made.append(own(*args, **kwargs))
        return made[0]

    async def _kick_async(self, own: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("inputs", args[0] if args else None)
        if getattr(self._subject, "stream", False):
            return self._streamed(await own(*args, **kwargs), given)
        async with self._running_async(given) as made:
            made.append(await own(*args, **kwargs))
        return made[0]

    @contextmanager
    def _running(self, inputs: Any) -> Iterator[list[Any]]:
        """Enters the run; the caller puts the output into the list."""
        made: list[Any] = []
        with ExitStack() as stack:
            try:
                run = stack.enter_context(self._opening(inputs))
            except InputsChanged as changed:
                run = stack.enter_context(self._opening_of_fork(changed))
                check_inputs_of_fork(run.options(key=_INPUTS).step(_INPUTS, lambda: inputs), inputs, changed)
            with self._session():
                yield made
            if run is not None:
                run.finish(told(made[0]))

    @asynccontextmanager
    async def _running_async(self, inputs: Any) -> AsyncIterator[list[Any]]:
        made: list[Any] = []
        async with AsyncExitStack() as stack:
            try:
                run = await stack.enter_async_context(self._opening(inputs))
            except InputsChanged as changed:
                run = await stack.enter_async_context(self._opening_of_fork(changed))
                first = await run.options(key=_INPUTS).step(_INPUTS, lambda: inputs)
                check_inputs_of_fork(first, inputs, changed)
            with self._session():
                yield made
            if run is not None:
                await run.finish(told(made[0]))

    def _opening(self, inputs: Any) -> Any:
        return nullcontext() if self._enter is None else self._enter(**{"inputs": inputs, **self._options})

    def _opening_of_fork(self, changed: InputsChanged) -> Any:
        """The fork, without the origin's inputs: what they change in its calls is no drift.

        Raises the error again if the run is no fork.
        """
        row = session_at(self._store).store.find_run(changed.run)
        if self._enter is None or changed.what != "inputs" or row is None or row.origin is None:
            raise changed
        return self._enter(**{**self._options, "inputs": None, "on_drift": "warn"})

    @contextmanager
    def _session(self) -> Iterator[None]:
        subject: Any = self._subject
        around = SESSION.get()
        streams = bool(getattr(subject, "stream", False))
        seam = RunPosition.get("a durable kickoff")
        with (
            Session(seam, self._effects, mixin_of, is_streamed=streams).current() as session,
            _reviewed(session),
        ):
            if isinstance(subject, Crew):
                session.check_effects(subject)
                labels = session.hold_crew(subject, "" if around is None else crew_place(subject))
                if around is None:
                    session.mark("plan", steps=labels)
                yield
            elif isinstance(subject, BaseAgent):
                session.hold_agent(subject)
                with scoped(session.seam, step_name(subject.role), is_agent=True):
                    yield
            else:
                session.hold_memory(getattr(subject, "memory", None))
                with _crews_held(session):
                    yield

    # A stream's run is entered at the first read, and left at its end.

    def _streamed(self, output: Any, inputs: Any) -> Any:
        if isinstance(output, list):
            if self._enter is not None:
                raise Misuse(
                    problem="each of several streams cannot enter the run by itself",
                    advice='enter it around them: with holdfast.run("…"): durable(crew).kickoff_for_each(…)',
                )
            return [self._streamed(one, inputs) for one in output]
        # CrewAI offers no public place to wrap the iterator.
        if output._sync_iterator is not None:  # noqa: SLF001
            output._sync_iterator = self._read(output, output._sync_iterator, inputs)  # noqa: SLF001
        else:
            output._async_iterator = self._read_async(output, output._async_iterator, inputs)  # noqa: SLF001
        return output

    def _read(self, output: Any, chunks: Iterator[Any], inputs: Any) -> Iterator[Any]:
        with self._running(inputs) as made:
            yield from chunks
            made.append(output._result)  # noqa: SLF001

    async def _read_async(self, output: Any, chunks: AsyncIterator[Any], inputs: Any) -> AsyncIterator[Any]:
        async with self._running_async(inputs) as made:
            async for chunk in chunks:
                yield chunk
            made.append(output._result)  # noqa: SLF001


@contextmanager
def _reviewed(session: Session) -> Iterator[None]:
    """Ask for reviews in the run, unless the program has a way of its own."""
    own = human_input._provider.get()  # noqa: SLF001 - ``get_provider`` would set one
    if own is not None and type(own) is not human_input.SyncHumanInputProvider:
        yield
        return
    token = human_input.set_provider(JournaledReview(session))
    try:
        yield
    finally:
        if isinstance(human_input.get_provider(), JournaledReview):  # a stream may be left in another context
            human_input.reset_provider(token)


@contextmanager
def _crews_held(session: Session) -> Iterator[None]:
    """Holds every crew that a flow kicks off. Before CrewAI 1.15, wrap each one: ``durable(crew)``."""
    try:
        from crewai.hooks.dispatch import (  # pyright: ignore[reportMissingImports]
            InterceptionPoint,
            scoped_hooks,
        )
    except ImportError:
        log().warning(
            "this version of CrewAI does not tell when a flow kicks off a crew: write durable(crew) there"
        )
        yield
        return

    def begin(context: Any) -> None:
        if context.crew is not None and SESSION.get() is session:
            session.hold_crew(context.crew, crew_place(context.crew))

    with scoped_hooks({InterceptionPoint.EXECUTION_START: [begin]}):
        yield


def check_inputs_of_fork(first: Any, inputs: Any, changed: InputsChanged) -> None:
    """InputsChanged for other inputs than those with which a fork was first kicked off."""
    before, now = ({"inputs": one} for one in (first, inputs))
    if canonical(before, what=_INPUTS) != canonical(now, what=_INPUTS):
        raise InputsChanged(run=changed.run, what="inputs", diff=arguments_diff(before, now)) from None


def told(output: Any) -> Any:
    """The output of a kickoff, as the run records it."""
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
