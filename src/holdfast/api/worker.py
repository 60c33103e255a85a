"""``holdfast.worker``: executes runs that are queued, orphaned or answered, on any number of machines.

One thread claims runs. Each run has a thread of its own, or a task in the event loop if its agent is ``async
def``. Leaving the run's block records how the attempt ended, as in any program; the worker only decides what
to take next. If a worker is killed, its leases end, and other workers take its runs.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Lock, Thread, current_thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.api.agent import Agent
from holdfast.api.store.store import Store, store_at
from holdfast.clock import SystemClock
from holdfast.engine.hooks.patrol import Patrol
from holdfast.engine.journal.lease import held_row
from holdfast.engine.log import log
from holdfast.engine.queue import workers
from holdfast.engine.queue.agent_registry import agents
from holdfast.engine.queue.claim import Claims
from holdfast.engine.queue.queue import is_emptied, is_suspect, let_go, stand_down
from holdfast.engine.run.close import how_it_ended
from holdfast.errors import HoldfastError, LeaseLost, Misuse, RunRefused, StopSignal, StoreError
from holdfast.limits import (
    WORKER_CRASHES_MAX,
    WORKER_DRAIN_S,
    WORKER_POLL_S,
    WORKER_POLL_S_MIN,
    WORKER_RUNS,
)
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import OVER, RunRow, Status

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

_PUT_OFF_S: Final = 10.0
_ASIDE_S: Final = 0.5
_SPARE_S: Final = 1.0
"""How long cancelled tasks get to record their end, after ``drain_s`` is over."""


class Report(NamedTuple):
    """Something that a worker did.

    ``what`` is ``started``, ``took``, the status of a run after its attempt, ``refused`` or ``lost``;
    ``store`` if the store does not answer; ``draining`` and ``left`` at the end.
    """

    what: str
    run: str = ""
    agent: str = ""
    text: str = ""
    took_s: float = 0.0


class Worker:
    """Executes the runs of some agents in one store. Use it with ``with`` or ``async with``."""

    def __init__(
        self,
        by_name: Mapping[str, Agent[Any, Any]],
        store: Store,
        *,
        concurrency: int = WORKER_RUNS,
        drain_s: float = WORKER_DRAIN_S,
        crashes_max: int = WORKER_CRASHES_MAX,
        tell: Callable[[Report], None] | None = None,
    ) -> None:
        """Use ``holdfast.worker(…)``."""
        self._agents = dict(by_name)
        self._store = store
        self._session = store._session  # noqa: SLF001 - its own handle
        self._claims = Claims(self._session, list(self._agents))
        self._concurrency = concurrency
        self._drain_s = drain_s
        self._crashes_max = crashes_max
        self._listener = tell
        self._lock = Lock()
        self._active: dict[str, Thread | Future[Any]] = {}
        self._claiming = Lock()
        """Held from a claim in the store until this worker knows what it has claimed."""
        self._reclaimed: dict[str, RunRow] = {}
        """Runs that were claimed again while their last attempt ends."""
        self._crashed: set[str] = set()
        self._on_trial = ""
        self._wake = Event()
        self._is_draining = False
        self._idle = Event()
        self._thread: Thread | None = None
        self._loop: AbstractEventLoop | None = None
        self._own_loop: Thread | None = None
        self._announced = ""
        self._patrol = Patrol(lambda: self._session)

    # -- its life --------------------------------------------------------------------------------------------

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of the runs that it executes now."""
        with self._lock:
            return tuple(self._active)

    @property
    def is_idle(self) -> bool:
        """Whether nothing ran and nothing was due at the last poll."""
        return self._idle.is_set()

    def start(self, loop: "AbstractEventLoop | None" = None) -> None:
        """Begin to claim, in a new thread.

        ``async def`` agents run in this loop, or in a loop of the worker.
        """
        if self._thread is not None:
            raise Misuse(problem="this worker was started before", advice="call holdfast.worker(...) again")
        self._loop = loop
        self._announced = workers.announce(self._session.store, self._agents)
        self._thread = Thread(target=self._claim_all, name="holdfast-worker", daemon=True)
        self._tell(Report("started", agent=", ".join(sorted(self._agents)), text=self._store.url))
        self._thread.start()
        self._patrol.start()

    def drain(self) -> None:
        """Claim no more runs, and stop each run at its next call. Returns at once; ``stop`` waits."""
        if not self._is_draining:
            self._is_draining = True
            self._tell(Report("draining", text=", ".join(self.runs)))
        # A run that is being entered right now is not held yet. ``stop`` repeats this call until it is.
        self._session.heartbeat.drain(self.runs, self._drain_s)
        self._wake.set()

    def stop(self) -> bool:
        """Drain and wait. False if a run did not stop within ``drain_s``: another worker takes it over."""
        self.drain()
        until = SystemClock.monotonic() + self._drain_s
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(self._drain_s)
        self._join(until)
        with self._lock:
            tasks = [one for one in self._active.values() if not isinstance(one, Thread)]
        for task in tasks:
            task.cancel()
        self._join(SystemClock.monotonic() + (_SPARE_S if tasks else 0.0))
        self._patrol.stop()
        left = self.runs
        if left:
            self._tell(Report("left", text=", ".join(left)))
        if self._announced:
            workers.withdraw(self._session.store, self._announced)
            self._announced = ""
        if self._own_loop is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._own_loop.join(_SPARE_S)
        return not left

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Block until nothing runs and nothing is due. False after ``timeout_s`` seconds."""
        return self._idle.wait(timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio

        await asyncio.to_thread(self.start, asyncio.get_running_loop())
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        import asyncio

        self.drain()
        await asyncio.to_thread(self.stop)

    def _tell(self, report: Report) -> None:
        """Call ``tell=``. What it raises is logged, because it must not end the thread that claims."""
        try:
            if self._listener is not None:
                self._listener(report)
        except Exception as error:  # noqa: BLE001 - the program's own code
            log().warning("the worker's tell=… failed on %r", report.what, exc_info=error)

    # -- claiming --------------------------------------------------------------------------------------------

    def _claim_all(self) -> None:
        pause_s = WORKER_POLL_S_MIN
        while True:
            # Cleared before the check: a drain that comes after it sets the event, and the wait below
            # returns.
            self._wake.clear()
            if self._is_draining:
                break
            taken = self._claim()
            pause_s = WORKER_POLL_S_MIN if taken else min(pause_s * 2, WORKER_POLL_S)
            if not taken or not self._room():
                self._wake.wait(pause_s)

    def _room(self) -> int:
        with self._lock:
            return self._concurrency - len(self._active)

    def _claim(self) -> int:
        """Claim as many runs as there is room for, and return how many.

        If the store fails, the loop tries again.
        """
        room = self._room()
        if room <= 0:
            return 0
        try:
            with self._claiming:
                rows = self._claims.take(room, lambda: self.runs)
                begun = [row for row in rows if not self._is_ending(row)]
        except Exception as error:  # noqa: BLE001 - a worker that lives and claims nothing would be useless
            self._tell(Report("store", text=str(error)))
            is_known = isinstance(error, StoreError)
            log().warning("the store cannot be asked for work: %s", error, exc_info=not is_known)
            return 0
        for row in begun:
            self._try_to_launch(row)
        # ``room`` was read before the store was asked. A run that ended since then may have made another one
        # due.
        is_idle = not rows and room == self._concurrency
        (self._idle.set if is_idle else self._idle.clear)()
        return len(rows)

    def _is_ending(self, row: RunRow) -> bool:
        """Whether an attempt that could not enter this run still has to put it off. It gets the new lease.

        Entering gave the lease back while the run was due, so it can be claimed again before it is put off.
        """
        with self._lock:
            is_ending = row.run in self._active
            if is_ending:
                self._reclaimed[row.run] = row
            return is_ending

    def _try_to_launch(self, row: RunRow) -> None:
        """Begin a run. If that fails here, for example because no thread can start, the run is given back."""
        try:
            self._launch(row)
        except Exception as error:  # noqa: BLE001 - the other runs of this worker go on
            log().warning("run %s cannot be begun here", row.run, exc_info=error)
            self._done(row, error, 0.0, is_run=False)
            self._give_back(row, self._session.clock.wall() + _PUT_OFF_S)

    def _give_back(self, row: RunRow, due_at: float | None) -> None:
        try:
            let_go(self._session.store, row, due_at)
        except StoreError as again:  # then its lease ends, and another worker takes it over
            log().warning("run %s: %s", row.run, again)

    def _launch(self, row: RunRow) -> None:
        agent = self._agents[row.agent]
        with self._lock:
            if agent.is_async:
                import asyncio

                work = self._attend_async(agent, row)
                self._active[row.run] = asyncio.run_coroutine_threadsafe(work, self._running_loop())
                return
            thread = Thread(
                target=self._attend, args=(agent, row), name=f"holdfast-run-{row.run}", daemon=True
            )
            self._active[row.run] = thread
        thread.start()

    def _running_loop(self) -> "AbstractEventLoop":
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
            self._own_loop = Thread(
                target=_turn, args=(self._loop,), name="holdfast-worker-loop", daemon=True
            )
            self._own_loop.start()
        return self._loop

    # -- one run ---------------------------------------------------------------------------------------------

    def _attend(self, agent: Agent[Any, Any], row: RunRow) -> None:
        with self._attending(row) as is_run:
            if is_run:
                agent.take_on(row, self._store, crashes_max=self._crashes_max)

    async def _attend_async(self, agent: Agent[Any, Any], row: RunRow) -> None:
        with self._attending(row) as is_run:
            if is_run:
                await agent.take_on(row, self._store, crashes_max=self._crashes_max)

    @contextmanager
    def _attending(self, row: RunRow) -> Iterator[bool]:
        """Around one attempt: yields whether to make it, and afterwards reports how it ended."""
        began = SystemClock.monotonic()
        is_run = False
        error: BaseException | None = None
        try:
            is_run = self._admit(row)
        except Exception as raised:  # noqa: BLE001 - reported below
            error = raised
        try:
            yield is_run
        except BaseException as raised:  # noqa: BLE001 - reported below
            error = raised
        self._done(row, error, SystemClock.monotonic() - began, is_run=is_run)

    def _admit(self, row: RunRow) -> bool:
        """Whether to execute the run now.

        If not, it is let go: for good if it needs nothing, else for a moment.
        """
        store, now = self._session.store, self._session.clock.wall()
        if _is_settled(row) or is_emptied(store, row):
            stand_down(store, row, now)
            return False
        if row.status == Status.RUNNING and not self._gets_turn(row):
            let_go(store, row, now + _ASIDE_S)
            return False
        self._tell(Report("took", row.run, row.agent, text=row.status))
        return True

    def _gets_turn(self, row: RunRow) -> bool:
        """Whether a run that crashed may be executed now.

        Such a run may kill its worker process, and the crash would count against all runs in it. So a run on
        its last chance is executed only while no other crashed run is.
        """
        is_last_chance = is_suspect(self._session.store, row.run, self._crashes_max)
        with self._lock:
            if self._on_trial or (is_last_chance and self._crashed):
                return False
            self._crashed.add(row.run)
            self._on_trial = row.run if is_last_chance else ""
            return True

    def _done(self, row: RunRow, error: BaseException | None, took_s: float, *, is_run: bool) -> None:
        try:
            if isinstance(error, Exception):
                self._put_off(row, error)
            if error is not None or is_run:
                self._tell(_report(row, error, took_s))
        except StoreError as again:  # then its lease ends, and another worker takes it over
            log().warning("run %s: %s", row.run, again)
        finally:
            with self._lock:
                self._active.pop(row.run, None)
                reclaimed = self._reclaimed.pop(row.run, None)
                self._crashed.discard(row.run)
                self._on_trial = "" if self._on_trial == row.run else self._on_trial
            if reclaimed is not None:
                self._give_back(reclaimed, reclaimed.due_at)
            self._wake.set()

    def _put_off(self, row: RunRow, error: Exception) -> None:
        """Set when a run is due that could not be entered: later, if the store was the reason.

        Else when it is submitted.
        """
        store, now = self._session.store, self._session.clock.wall()
        # Not while this worker claims: it may have the run in the store's eyes, and not know that yet.
        with self._claiming:
            with self._lock:
                now_held = self._reclaimed.pop(row.run, None)
            if now_held is None:
                found = store.find_run(row.run)
                if found is None or found.head > row.head or found.lease.owner:
                    return
                # Entering gave the lease back. Another worker may hold the run now, and then decides itself.
                if not store.acquire(row.run, at=now, lease_s=self._session.lease_s).granted:
                    return
                now_held = held_row(store, row.run)
        is_same = (now_held.birth, now_held.head) == (row.birth, row.head)
        due_at = now + _PUT_OFF_S if isinstance(error, StoreError) else None
        let_go(store, now_held, due_at if is_same else now_held.due_at)

    def _join(self, until: float) -> None:
        """Wait until nothing runs, or until a time. A run that ends sets ``_wake``."""
        while self.runs and (left_s := until - SystemClock.monotonic()) > 0:
            self._session.heartbeat.drain(self.runs, left_s)
            self._wake.clear()
            if self.runs:
                self._wake.wait(min(left_s, WORKER_POLL_S_MIN * 4))


def worker(
    *serving: Agent[Any, Any] | str,
    store: "str | os.PathLike[str] | Store | None" = None,
    concurrency: int = WORKER_RUNS,
    drain_s: float = WORKER_DRAIN_S,
    crashes_max: int = WORKER_CRASHES_MAX,
    tell: Callable[[Report], None] | None = None,
) -> Worker:
    """A worker for these agents, or for all that this process declared.

    It executes queued, orphaned and answered runs. ``async with holdfast.worker(…):`` embeds it in a service,
    ``with`` in a program without an event loop. It executes at most ``concurrency`` runs at a time. Leaving
    the block drains it: each run stops at its next call, and another worker continues it. A run whose last
    ``crashes_max`` attempts crashed without progress is parked, with the reasons. ``tell`` is called with a
    ``Report`` on each thing the worker does.
    """
    for name, value in (("concurrency", concurrency), ("crashes_max", crashes_max)):
        if value < 1:
            raise Misuse(problem=f"worker: {name}={value}", advice=f"{name} is 1 or more")
    return Worker(
        named_agents(serving),
        store_at(store),
        concurrency=concurrency,
        drain_s=drain_s,
        crashes_max=crashes_max,
        tell=tell,
    )


def named_agents(serving: Sequence[Agent[Any, Any] | str]) -> dict[str, Agent[Any, Any]]:
    """The agents by name; without arguments, all that were declared. Raises Misuse for one that was not."""
    found: dict[str, Agent[Any, Any]] = {}
    for one in serving or tuple(agents.values()):
        name = one if isinstance(one, str) else one.name
        agent = agents.get(one) if isinstance(one, str) else one
        if agent is None:
            known = ", ".join(sorted(agents)) or "none"
            raise Misuse(problem=f"there is no agent {name!r} here", advice=f"agents declared here: {known}")
        found[name] = agent
    if not found:
        raise Misuse(
            problem="a worker needs agents, and none is declared",
            advice='declare one: @holdfast.agent("auditor") above a function',
        )
    return found


def _turn(loop: "AbstractEventLoop") -> None:
    """Run the worker's own event loop until it is stopped."""
    try:
        loop.run_forever()
    finally:
        loop.close()


def _is_settled(row: RunRow) -> bool:
    """Whether a run needs nothing: it is over, has no events yet, or failed."""
    # A failed run without a due time: its worker died after it recorded the failure and before it let the run
    # go.
    has_failed = row.status == Status.FAILED and row.due_at is None
    return row.head == 0 or has_failed or row.status in OVER | {Status.SEALED, Status.IMPORTING}


def _report(row: RunRow, error: BaseException | None, took_s: float) -> Report:
    """The report of an attempt."""
    if error is None:
        return Report(Status.FINISHED, row.run, row.agent, took_s=took_s)
    what = how_it_ended(error)
    if isinstance(error, RunRefused | Misuse):
        what = "refused"
    elif isinstance(error, LeaseLost):
        what = "lost"
    text = str(error) if isinstance(error, HoldfastError | StopSignal) else f"{type(error).__name__}: {error}"
    return Report(what, row.run, row.agent, text, took_s)
