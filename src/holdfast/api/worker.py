"""``holdfast.worker``: runs what is queued, orphaned or answered, on any number of machines.

One thread claims; each run has a thread of its own, or a task in the event loop if its agent is ``async def``. Whatever
ends an attempt is recorded by leaving the run's block; the worker adds nothing to that but what to take next.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event, Lock, Thread, current_thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from holdfast.api.agent import Agent
from holdfast.api.store.store import Store, store_at
from holdfast.clock import SystemClock
from holdfast.engine.journal.lease import held_row
from holdfast.engine.log import log
from holdfast.engine.queue import workers
from holdfast.engine.queue.agent_registry import agents
from holdfast.engine.queue.claim import Claims
from holdfast.engine.queue.queue import is_suspect, let_go, stand_down
from holdfast.engine.run.close import how_it_ended
from holdfast.errors import HoldfastError, LeaseLost, Misuse, RunRefused, StopSignal, StoreError
from holdfast.limits import (
    WORKER_CRASHES_MAX,
    WORKER_DRAIN_S,
    WORKER_POLL_S,
    WORKER_POLL_S_MIN,
    WORKER_RUNS,
)
from holdfast.model.store_rows import OVER, RunRow, Status

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

_PUT_OFF_S: Final = 10.0
_ASIDE_S: Final = 0.5
_SPARE_S: Final = 1.0
"""After that what is left of a drain is cut off, and gets so long to be recorded."""


class Report(NamedTuple):
    """Something that a worker did.

    ``what`` is ``started``, ``took``, the status that a run was left with, ``refused`` or ``lost``; ``store`` when that cannot
    be asked; ``draining`` and ``left`` at the end.
    """

    what: str
    run: str = ""
    agent: str = ""
    text: str = ""
    took_s: float = 0.0


class Worker:
    """Runs the agents' runs of one store. Use it with ``with``, with ``async with``, or through ``serve``."""

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
        self._crashed: set[str] = set()
        self._on_trial = ""
        self._wake = Event()
        self._is_draining = False
        self._idle = Event()
        self._thread: Thread | None = None
        self._loop: AbstractEventLoop | None = None
        self._own_loop: Thread | None = None
        self._announced = ""

    # -- its life --------------------------------------------------------------------------------------------

    @property
    def runs(self) -> tuple[str, ...]:
        """What it runs now."""
        with self._lock:
            return tuple(self._active)

    @property
    def is_idle(self) -> bool:
        """Whether nothing ran and nothing was due when it last looked."""
        return self._idle.is_set()

    def start(self, loop: "AbstractEventLoop | None" = None) -> None:
        """Begin to claim, in a thread of its own. ``async def`` agents run in this loop, or else in one of the worker's."""
        if self._thread is not None:
            raise Misuse(problem="this worker was started before", advice="call holdfast.worker(...) again")
        self._loop = loop
        self._announced = workers.announce(self._session.store, self._agents)
        self._thread = Thread(target=self._claim_all, name="holdfast-worker", daemon=True)
        self._tell(Report("started", agent=", ".join(sorted(self._agents)), text=self._store.url))
        self._thread.start()

    def drain(self) -> None:
        """Claim no more, and let nothing new begin: each run stops at its next call. Returns at once; ``stop`` waits."""
        if not self._is_draining:
            self._is_draining = True
            self._tell(Report("draining", text=", ".join(self.runs)))
        # Those that are just being entered are told while ``stop`` waits.
        self._session.heartbeat.drain(self.runs, self._drain_s)
        self._wake.set()

    def stop(self) -> bool:
        """Drain, and wait for it. False if something still ran after ``drain_s``: another worker takes that over."""
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
        """Block until nothing runs and nothing is due."""
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
        """Tell the program; what its function raises is logged, since it must not end the thread that claims."""
        try:
            if self._listener is not None:
                self._listener(report)
        except Exception as error:  # noqa: BLE001 - the program's own code
            log().warning("the worker's tell=… failed on %r", report.what, exc_info=error)

    # -- claiming --------------------------------------------------------------------------------------------

    def _claim_all(self) -> None:
        pause_s = WORKER_POLL_S_MIN
        while True:
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
        """Take what there is room for; how many. A store that is away is asked again."""
        room = self._room()
        if room <= 0:
            return 0
        try:
            rows = self._claims.take(room, lambda: self.runs)
        except Exception as error:  # noqa: BLE001 - whatever it is: a worker that claims no more, and does not end, helps nobody
            self._tell(Report("store", text=str(error)))
            is_known = isinstance(error, StoreError)
            log().warning("the store cannot be asked for work: %s", error, exc_info=not is_known)
            return 0
        for row in rows:
            self._try_to_launch(row)
        # By what ran before we asked: what has ended since may have called something up.
        is_idle = not rows and room == self._concurrency
        (self._idle.set if is_idle else self._idle.clear)()
        return len(rows)

    def _try_to_launch(self, row: RunRow) -> None:
        """Begin it. A run that cannot be begun here, for want of a thread or of a loop, is given back."""
        try:
            self._launch(row)
        except Exception as error:  # noqa: BLE001 - the other runs of this worker go on
            log().warning("run %s cannot be begun here", row.run, exc_info=error)
            self._done(row, error, 0.0, is_run=False)
            self._give_back(row)

    def _give_back(self, row: RunRow) -> None:
        try:
            let_go(self._session.store, row, self._session.clock.wall() + _PUT_OFF_S)
        except StoreError as again:  # then its lease runs out, and another worker takes it over
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
        """Around one attempt: whether to make it, and afterwards what became of it. Whatever ended it is recorded, and told."""
        began = SystemClock.monotonic()
        is_run = False
        error: BaseException | None = None
        try:
            is_run = self._admit(row)
        except Exception as raised:  # noqa: BLE001 - told below
            error = raised
        try:
            yield is_run
        except BaseException as raised:  # noqa: BLE001 - told below
            error = raised
        self._done(row, error, SystemClock.monotonic() - began, is_run=is_run)

    def _admit(self, row: RunRow) -> bool:
        """Whether to run it now. If not, it is let go: for good where it asks for nothing, else until its turn comes."""
        store, now = self._session.store, self._session.clock.wall()
        if _is_settled(row):
            stand_down(store, row, now)
            return False
        if row.status == Status.RUNNING and not self._gets_turn(row):
            let_go(store, row, now + _ASIDE_S)
            return False
        self._tell(Report("took", row.run, row.agent, text=row.status))
        return True

    def _gets_turn(self, row: RunRow) -> bool:
        """A run that has crashed may be what kills its workers. One more crash being too many, it runs beside no other such."""
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
        except StoreError as again:  # then its lease runs out, and somebody takes it over
            log().warning("run %s: %s", row.run, again)
        finally:
            with self._lock:
                self._active.pop(row.run, None)
                self._crashed.discard(row.run)
                self._on_trial = "" if self._on_trial == row.run else self._on_trial
            self._wake.set()

    def _put_off(self, row: RunRow, error: Exception) -> None:
        """Entering it failed, and would again: it is due later if the store was the reason, else when it is called up."""
        store, now = self._session.store, self._session.clock.wall()
        found = store.find_run(row.run)
        if found is None or found.head > row.head or found.lease.owner:
            return
        grant = store.acquire(row.run, at=now, lease_s=self._session.lease_s)
        if not grant.granted:
            return
        now_held = held_row(store, row.run)
        is_same = (now_held.birth, now_held.head) == (row.birth, row.head)
        due_at = now + _PUT_OFF_S if isinstance(error, StoreError) else None
        let_go(store, now_held, due_at if is_same else now_held.due_at)

    def _join(self, until: float) -> None:
        """Wait for what runs; what ends wakes us."""
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
    """A worker for these agents, or for all that this process knows: it runs what is queued, orphaned or answered.

    ``async with holdfast.worker(…):`` embeds it in a service, ``with`` in a program without an event loop. At most
    ``concurrency`` runs at a time. Leaving the block drains it: each run stops at its next call and goes on elsewhere.
    A run whose last ``crashes_max`` attempts crashed without getting on is parked, with the reasons.
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
    """The agents by name; none told means all that were declared. Misuse for one that was not."""
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
    """A loop of our own, until it is stopped."""
    try:
        loop.run_forever()
    finally:
        loop.close()


def _is_settled(row: RunRow) -> bool:
    """Whether a run asks for nothing: it is over, or not written down; or it failed, and whoever said so died before letting go."""
    has_failed = row.status == Status.FAILED and row.due_at is None
    return row.head == 0 or has_failed or row.status in OVER | {Status.SEALED, Status.IMPORTING}


def _report(row: RunRow, error: BaseException | None, took_s: float) -> Report:
    """What became of it, for people."""
    if error is None:
        return Report(Status.FINISHED, row.run, row.agent, took_s=took_s)
    what = how_it_ended(error)
    if isinstance(error, RunRefused | Misuse):
        what = "refused"
    elif isinstance(error, LeaseLost):
        what = "lost"
    text = str(error) if isinstance(error, HoldfastError | StopSignal) else f"{type(error).__name__}: {error}"
    return Report(what, row.run, row.agent, text, took_s)
