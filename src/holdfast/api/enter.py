"""``holdfast.run(...)``: starts a run or resumes it, for ``with``, ``async with`` and notebooks."""

import builtins
import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import Token
from functools import cache
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from holdfast.api import excepthook
from holdfast.api.run import Run
from holdfast.api.store.place import session_at
from holdfast.engine import replay_mode
from holdfast.engine.run.call_site import CALL_SITE, CallSite, current_task, here_now
from holdfast.engine.run.close import leave
from holdfast.engine.run.entry import Entry
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.open import enter
from holdfast.engine.run.store_session import StoreSession, held_runs
from holdfast.engine.steps.call_options import budget_of, choose, policy_of
from holdfast.engine.sync_async import (
    AWAITING,
    BLOCKING,
    UnawaitedCalls,
    drive,
    is_cancellation,
    noting_calls,
)
from holdfast.errors import Misuse, NoCurrentRun, StopSignal, Terminated
from holdfast.limits import ARTIFACTS_BYTES_MAX, DRAIN_S
from holdfast.model.budget import Budget
from holdfast.model.calls import CallOptions
from holdfast.model.loops import LoopPolicy
from holdfast.model.premises import Act
from holdfast.model.retention import RETENTION, Retention

if TYPE_CHECKING:
    from holdfast.api.async_run import AsyncRun, AsyncRunOptions
    from holdfast.api.messages import AsyncMessages
    from holdfast.api.store.store import Store
    from holdfast.engine.budget.price_tables import Prices
    from holdfast.engine.run.sigterm import Watch
    from holdfast.model.hooks import Hook, Notice

HandleT = TypeVar("HandleT", Run, "AsyncRun")

Mode = Literal["auto", "new", "resume"]
IfFinished = Literal["replay", "new", "reopen"]
Stops = Literal["raise", "suppress"]
OnDrift = Literal["stop", "warn"]
Unclaimed = Literal["stop", "tell"]


def run(
    id: str,  # noqa: A002 - what people call it
    *,
    goal: str | None = None,
    inputs: Any = None,
    store: "str | os.PathLike[str] | Store | None" = None,
    workspace: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None" = None,
    mode: Mode = "auto",
    if_finished: IfFinished = "replay",
    stops: Stops = "raise",
    on_drift: OnDrift = "stop",
    unclaimed: Unclaimed = "stop",
    strict: bool = False,
    drain_s: float = DRAIN_S,
    loops: LoopPolicy | bool | None = None,
    retention: Retention | None = RETENTION,
    budget: Budget | Mapping[str, Any] | None = None,
    prices: "Prices | None" = None,
    premises: Mapping[str, Act] | None = None,
    artifact_bytes_max: int = ARTIFACTS_BYTES_MAX,
    hooks: "Sequence[Hook | str | Sequence[str] | Callable[[Notice], Any]]" = (),
    mirror: "str | os.PathLike[str] | None" = None,
) -> "Opening":
    """Start the run of this id, or resume it: the same line does both.

    Use it with ``with`` (gives ``Run``), ``async with`` (gives ``AsyncRun``) or ``.open()``. Leaving the
    block finishes the run. An exception ends the attempt; the run can be resumed.

    - ``inputs``, ``goal``: other values under the same id raise InputsChanged.
    - ``mode``: ``"new"`` refuses a run that exists, ``"resume"`` one that does not.
    - ``if_finished``: ``"replay"`` writes nothing, ``"reopen"`` continues the run, ``"new"`` starts ``ID.2``.
    - ``stops``: ``"suppress"`` leaves the block quietly on a stop-signal; ``on_drift``: ``"warn"`` logs it.
    - ``unclaimed``: ``"tell"`` raises EffectNotMade, for the model, where EffectUnclaimed would stop the run.
    - ``strict``: a step that changes what it was given raises ArgumentChanged, when its outcome is recorded.
    - ``drain_s``: how long leaving the block waits for calls in flight.
    - ``loops``: when a loop warns, nudges the model and parks the run; False for never.
    - ``retention``: what is pruned while the run goes on; None for nothing.
    - ``budget``: what model calls may cost, over all attempts; ``prices``: a price table or its path.
    - ``premises``: ``"pause"``, ``"warn"`` or ``"ignore"`` if a premise fails, by kind or by kind and name.
    - ``workspace``: the directories of the run's files; ``artifact_bytes_max``: the size of all their copies.
    - ``hooks``: what is notified when a person is needed, and at the end; ``mirror``: a directory for files.
    """
    choose("mode", mode, ("auto", "new", "resume"))
    choose("if_finished", if_finished, ("replay", "new", "reopen"))
    choose("stops", stops, ("raise", "suppress"))
    choose("on_drift", on_drift, ("stop", "warn"))
    choose("unclaimed", unclaimed, ("stop", "tell"))
    policy = policy_of(loops)
    entry = Entry(
        id,
        goal,
        inputs,
        _roots(workspace),
        mode,
        if_finished,
        stops,
        on_drift,
        unclaimed,
        drain_s,
        loops=policy,
        retention=retention,
        budget=budget_of(budget),
        prices=prices,
        premises=_policies(premises),
        artifact_bytes_max=artifact_bytes_max,
        strict=strict,
        hooks=_hooks(hooks),
        mirror=os.path.abspath(mirror) if mirror else "",  # noqa: PTH100 - resolve() would follow links
    )
    return Opening(entry, store)


def _hooks(given: "Sequence[Any]") -> "tuple[Hook, ...]":
    if not given:
        return ()
    from holdfast.engine.hooks.declared import as_hooks

    return as_hooks(given)


def _policies(premises: Mapping[str, Act] | None) -> dict[str, Act] | None:
    if premises is None:
        return None
    from holdfast.core.premises.premises import check_policies

    return check_policies(premises)


def _roots(
    workspace: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None",
) -> tuple[str, ...]:
    if workspace is None:
        return ()
    places = [workspace] if isinstance(workspace, (str, os.PathLike)) else workspace
    return tuple(os.path.abspath(place) for place in places)  # noqa: PTH100 - resolve() would follow links


def current() -> "Run | AsyncRun":
    """The run of this context. Raises NoCurrentRun if there is none."""
    here = here_now()
    if here is None:
        raise NoCurrentRun(
            what="holdfast.current()", held=", ".join(held_runs()) or "no run", problem="", advice=""
        )
    handle: Run | AsyncRun = here.held.handle
    return handle


replaying = replay_mode.replaying
"""Replay the runs that this process enters meanwhile: for ``holdfast.testing``."""

_opened: "dict[tuple[StoreSession, str], tuple[Run | AsyncRun, object]]" = {}
"""The runs that were opened without a block, by store and id, with the task that opened each."""


def _opener() -> object:
    """The task that opens a run.

    In IPython the thread, because a notebook may run each cell in a task of its own.
    """
    return get_ident() if hasattr(builtins, "__IPYTHON__") else current_task()


def _block_of(outer: CallSite | None, session: StoreSession, entry: Entry) -> "Run | AsyncRun | None":
    """The handle of the enclosing block, if this task entered the same run with it."""
    if outer is None or (session, entry.run) in _opened:
        return None
    held = outer.held
    is_same = held.run == entry.run and held.session is session and held.root.task == current_task()
    return held.handle if is_same else None


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error


@cache
def noted_async_run() -> "type[AsyncRun]":
    """The class of async handles: an ``AsyncRun`` that notes calls that the program does not await."""
    from holdfast.api.async_run import AsyncRun, AsyncRunOptions
    from holdfast.api.messages import AsyncMessages

    options, messages = noting_calls(AsyncRunOptions), noting_calls(AsyncMessages)

    class Noted(noting_calls(AsyncRun)):  # type: ignore[misc]  # a class made here
        __slots__ = ()

        @property
        def messages(self) -> "AsyncMessages":
            return messages(self._held)

        def _treated(self, call_options: CallOptions) -> "AsyncRunOptions":
            return options(self._held, call_options)

    Noted.__name__ = AsyncRun.__name__
    return Noted


class Opening:
    """A run that is about to be entered, once: ``with``, ``async with`` or ``.open()``."""

    def __init__(self, entry: Entry, store: "str | os.PathLike[str] | Store | None") -> None:
        self._entry = entry
        self._store = store
        self._run: Run | AsyncRun | None = None
        self._token: Token[CallSite | None] | None = None
        self._has_handler = False
        self._watch: Watch | None = None

    def __repr__(self) -> str:
        return f"<holdfast.run({self._entry.run!r}), to be entered by `with`>"

    if not TYPE_CHECKING:  # else type checkers would accept every attribute

        def __getattr__(self, name: str) -> Any:
            """For a program that takes this for the run: an error whose hint has the ``with``."""
            error = AttributeError(f"'Opening' object has no attribute {name!r}", name=name, obj=self)
            # Not for private names: a copy is asked for them before it has an entry.
            if hasattr(Run, name) and not name.startswith("_"):
                run = f"holdfast.run({self._entry.run!r})"
                error.args = (f"{run} has no attribute {name!r} before it is entered",)
                error.add_note(
                    f"hint: write `with {run} as run:` and use `run` in its block; or, in a notebook, .open()"
                )
            raise error

    def for_client(self) -> "Opening":
        """Mark the attempt as one that a server holds for a client that does the work."""
        self._entry = self._entry._replace(is_served=True)
        return self

    def open(self) -> Run:
        """Enter the run without a block, for notebooks. End it with ``run.finish(…)`` and ``run.close()``.

        It is never a child of another run. If the same task opens it again, it is the same run from its
        beginning, and recorded calls answer.
        """
        outer = here_now()
        token = CALL_SITE.set(None)  # without a current run, the new one is no child
        try:
            session = self._session()
            block = _block_of(outer, session, self._entry)
            if isinstance(block, Run):
                CALL_SITE.reset(token)
                return block
            handle = self._enter(session)
        except BaseException:
            CALL_SITE.reset(token)
            raise
        self._note_opened(session, handle, outer)
        return handle

    async def open_async(self) -> "AsyncRun":
        """As ``open``, for async programs: await ``run.finish(…)`` and ``run.close()`` too."""
        outer = here_now()
        token = CALL_SITE.set(None)
        try:
            session = await AWAITING.store(self._session)
            block = _block_of(outer, session, self._entry)
            if block is not None and not isinstance(block, Run):
                CALL_SITE.reset(token)
                return block
            handle = await self._enter_async(session)
        except BaseException:
            CALL_SITE.reset(token)
            raise
        self._note_opened(session, handle, outer)
        return handle

    def _note_opened(self, session: StoreSession, handle: "Run | AsyncRun", outer: CallSite | None) -> None:
        here = CALL_SITE.get()
        assert here is not None, "a run was entered just now"
        here.outer = outer if outer is None or not outer.held.is_closed else None
        for key in [key for key, (each, _) in _opened.items() if each._held.is_closed]:  # noqa: SLF001
            del _opened[key]
        _opened[session, self._entry.run] = handle, _opener()

    def _enter(self, session: StoreSession) -> Run:
        former = self._former(session)
        if former is not None:
            _raise(drive(leave(former._held, BLOCKING, former._entry, None, finishes=False)))  # noqa: SLF001
        held = drive(enter(BLOCKING, session, self._entry))
        held.root.task = current_task()
        return self._handle(held, former, Run)

    async def _enter_async(self, session: StoreSession) -> "AsyncRun":
        former = self._former(session)
        if former is not None:
            _raise(await leave(former._held, AWAITING, former._entry, None, finishes=False))  # noqa: SLF001
        held = await enter(AWAITING, session, self._entry)
        held.unawaited = UnawaitedCalls()
        return self._handle(held, former, noted_async_run())

    def _former(self, session: StoreSession) -> "Run | AsyncRun | None":
        """The open handle of the same run, if this task opened it without a block. A replay has none."""
        if replay_mode.is_on():
            return None
        handle, opener = _opened.pop((session, self._entry.run), (None, None))
        if handle is None or handle._held.is_closed or not handle._held.is_ours:  # noqa: SLF001
            return None
        if opener != _opener():
            _opened[session, self._entry.run] = handle, opener
            return None
        if handle._held.unawaited is not None:  # noqa: SLF001
            handle._held.unawaited.forget()  # noqa: SLF001 - the user corrected the cell and runs it again
        return handle

    def _handle(self, held: HeldRun, former: "Run | AsyncRun | None", cls: type[HandleT]) -> HandleT:
        """The run's handle; if this task had one, the same object, because the program may have kept it."""
        handle = former if former is not None and isinstance(former, cls) else cls(held, self._entry)
        handle._held, handle._entry, held.handle = held, self._entry, handle  # noqa: SLF001
        self._run = handle
        self._token = CALL_SITE.set(CallSite(held, "", held.root))
        return handle

    def __enter__(self) -> Run:
        from holdfast.engine.run import sigterm

        self._has_handler = sigterm.MAIN.install()
        try:
            run = self._enter(self._session())
        except BaseException:
            self._restore_signal()
            raise
        if self._has_handler:
            run._held.sigterm = sigterm.MAIN  # noqa: SLF001 - its own handle
        return run

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> bool:
        assert isinstance(self._run, Run)
        try:
            raised = drive(leave(self._run._held, BLOCKING, self._entry, error))  # noqa: SLF001 - its own handle
        finally:
            self._reset()
            self._restore_signal()
        return self._conclude(error, raised)

    async def __aenter__(self) -> "AsyncRun":
        from holdfast.engine.run import sigterm

        session = await AWAITING.store(self._session)
        try:
            self._watch = sigterm.install_in_loop(current_task(), self._entry.drain_s)
            handle = await self._enter_async(session)
        except BaseException as error:
            is_last = self._watch is not None and self._watch.undo()
            if is_last and is_cancellation(error):
                raise Terminated from error
            raise
        if self._watch is not None:
            held = handle._held  # noqa: SLF001 - its own handle
            held.sigterm, self._watch.held = self._watch, held
        return handle

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> bool:
        assert self._run is not None
        held = self._run._held  # noqa: SLF001 - its own handle
        watch = self._watch
        is_last = False
        try:
            raised = await leave(
                held, AWAITING, self._entry, error, is_hurried=lambda: watch is None or watch.is_hurried
            )
            if watch is not None:
                await watch.wait_for_inner_runs()
        finally:
            self._reset()
            is_last = watch is not None and watch.undo()
        if is_last and raised is not None and is_cancellation(raised):
            raise Terminated from raised
        return self._conclude(error, raised)

    def _session(self) -> StoreSession:
        if self._run is not None:
            raise Misuse(
                problem=f"run {self._entry.run} was entered through this object before",
                advice="call holdfast.run(...) again",
            )
        excepthook.install()
        return session_at(self._store)

    def _conclude(self, error: BaseException | None, raised: BaseException | None) -> bool:
        if raised is None:
            return False
        if self._entry.stops == "suppress" and isinstance(raised, StopSignal):
            return True
        if raised is error:  # the program's own exception: the ``with`` statement raises it again
            return False
        raise raised from raised.__cause__

    def _reset(self) -> None:
        try:
            if self._token is not None:
                CALL_SITE.reset(self._token)
        except ValueError:  # a fixture or a generator may leave the block in another context than it entered
            CALL_SITE.set(None)

    def _restore_signal(self) -> None:
        if self._has_handler:
            from holdfast.engine.run import sigterm

            self._has_handler = False
            sigterm.MAIN.remove()
