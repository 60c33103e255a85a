"""``holdfast.run(...)``: starts a run or resumes it, for ``with``, ``async with`` and notebooks."""

import os
from collections.abc import Mapping, Sequence
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from holdfast.api import excepthook
from holdfast.api.async_run import AsyncRun
from holdfast.api.run import Run
from holdfast.api.store.place import session_at
from holdfast.engine.run.call_site import CALL_SITE, CallSite, current_task, here_now
from holdfast.engine.run.close import leave
from holdfast.engine.run.open import Entry, enter
from holdfast.engine.run.store_session import StoreSession, held_runs
from holdfast.engine.steps.call_options import budget_of, choose, policy_of
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive, is_cancellation
from holdfast.errors import Misuse, NoCurrentRun, StopSignal, Terminated
from holdfast.limits import ARTIFACTS_BYTES_MAX, DRAIN_S
from holdfast.model.budget import Budget
from holdfast.model.loops import LoopPolicy
from holdfast.model.premises import Act
from holdfast.model.retention import RETENTION, Retention

if TYPE_CHECKING:
    from holdfast.api.store.store import Store
    from holdfast.engine.budget.price_tables import Prices
    from holdfast.engine.run.sigterm import Watch

Mode = Literal["auto", "new", "resume"]
IfFinished = Literal["replay", "new", "reopen"]
Stops = Literal["raise", "suppress"]
OnDrift = Literal["stop", "warn"]


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
    drain_s: float = DRAIN_S,
    loops: LoopPolicy | bool | None = None,
    retention: Retention | None = RETENTION,
    budget: Budget | Mapping[str, Any] | None = None,
    prices: "Prices | None" = None,
    premises: Mapping[str, Act] | None = None,
    artifact_bytes_max: int = ARTIFACTS_BYTES_MAX,
) -> "Opening":
    """Start the run of this id, or resume it: the same line does both.

    Use it with ``with`` (gives ``Run``), ``async with`` (gives ``AsyncRun``) or ``.open()``. Leaving the
    block finishes the run. An exception ends the attempt; the run can be resumed.

    - ``inputs``, ``goal``: other values under the same id raise InputsChanged.
    - ``mode``: ``"new"`` refuses a run that exists, ``"resume"`` one that does not.
    - ``if_finished``: ``"replay"`` writes nothing, ``"reopen"`` continues the run, ``"new"`` starts ``ID.2``.
    - ``stops``: ``"suppress"`` leaves the block quietly on a stop-signal; ``on_drift``: ``"warn"`` logs it.
    - ``drain_s``: how long leaving the block waits for calls in flight.
    - ``loops``: when a loop warns, nudges the model and parks the run; False for never.
    - ``retention``: what is pruned while the run goes on; None for nothing.
    - ``budget``: what model calls may cost, over all attempts; ``prices``: a price table or its path.
    - ``premises``: ``"pause"``, ``"warn"`` or ``"ignore"`` if a premise fails, by kind or by kind and name.
    - ``workspace``: the directories of the run's files; ``artifact_bytes_max``: the size of all their copies.
    """
    choose("mode", mode, ("auto", "new", "resume"))
    choose("if_finished", if_finished, ("replay", "new", "reopen"))
    choose("stops", stops, ("raise", "suppress"))
    choose("on_drift", on_drift, ("stop", "warn"))
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
        drain_s,
        loops=policy,
        retention=retention,
        budget=budget_of(budget),
        prices=prices,
        premises=_policies(premises),
        artifact_bytes_max=artifact_bytes_max,
    )
    return Opening(entry, store)


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


def current() -> Run | AsyncRun:
    """The run of this context. Raises NoCurrentRun if there is none."""
    here = here_now()
    if here is None:
        raise NoCurrentRun(
            what="holdfast.current()", held=", ".join(held_runs()) or "no run", problem="", advice=""
        )
    handle: Run | AsyncRun = here.held.handle
    return handle


class Opening:
    """A run that is about to be entered, once: ``with``, ``async with`` or ``.open()``."""

    def __init__(self, entry: Entry, store: "str | os.PathLike[str] | Store | None") -> None:
        self._entry = entry
        self._store = store
        self._run: Run | AsyncRun | None = None
        self._token: Token[CallSite | None] | None = None
        self._has_handler = False
        self._watch: Watch | None = None

    def for_client(self) -> "Opening":
        """Mark the attempt as one that a server holds for a client that does the work."""
        self._entry = self._entry._replace(is_served=True)
        return self

    def open(self) -> Run:
        """Enter the run without a block, for notebooks. End it with ``run.finish(…)`` and ``run.close()``."""
        session = self._session()
        held = drive(enter(BLOCKING, session, self._entry))
        self._run = handle = Run(held, self._entry)
        held.root.task = current_task()
        self._token = CALL_SITE.set(CallSite(held, "", held.root))
        return handle

    def __enter__(self) -> Run:
        from holdfast.engine.run import sigterm

        self._has_handler = sigterm.MAIN.install()
        try:
            run = self.open()
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

    async def __aenter__(self) -> AsyncRun:
        from holdfast.engine.run import sigterm

        session = await AWAITING.store(self._session)
        try:
            self._watch = sigterm.install_in_loop(current_task(), self._entry.drain_s)
            held = await enter(AWAITING, session, self._entry)
        except BaseException as error:
            is_last = self._watch is not None and self._watch.undo()
            if is_last and is_cancellation(error):
                raise Terminated from error
            raise
        if self._watch is not None:
            held.sigterm, self._watch.held = self._watch, held
        self._run = handle = AsyncRun(held, self._entry)
        self._token = CALL_SITE.set(CallSite(held, "", held.root))
        return handle

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> bool:
        assert isinstance(self._run, AsyncRun)
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
