"""The heartbeat thread of a store: renews this process's leases, and syncs what was only flushed.

A step may take as long as it likes, because this thread renews the lease, not the progress of steps. On each
beat the thread also looks for a cancellation of each run. It starts with the first lease, and ends when it
finds none at the time of a beat, some seconds after the last was given back. So a program that enters one run
after the other starts no thread for each, and to enter or leave a run wakes none.

Invariant: no error of a store ends the thread while the process holds a lease. If the process stops or loses
the store, beats stop, and after ``lease_s`` another process may take the lease over; the fence then refuses
our appends.
"""

from collections.abc import Callable, Iterable
from math import inf
from threading import Event, Lock, Thread
from typing import Any, Final

from holdfast.clock import Clock
from holdfast.engine.journal.inbox import find_cancel
from holdfast.engine.journal.journal import Journal
from holdfast.engine.log import log
from holdfast.errors import HoldfastError
from holdfast.limits import BEATS_PER_LEASE, FLUSH_SYNC_S
from holdfast.model.store_rows import Lease
from holdfast.stores.port import StorePort

_REST_S: Final = FLUSH_SYNC_S * 0.8
"""How long the thread waits for a new lease, and at most for a beat.
0.8: it needs time to wake and the disk to sync, and the promise is 5 s."""


class Heartbeat:
    """Keeps this process's leases of one store alive."""

    def __init__(self, store: StorePort, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._journals: dict[str, tuple[Journal, float]] = {}
        self._wake = Event()
        self._wait_s = 0.0
        """How long the thread waits for its next beat."""
        self._thread: Thread | None = None

    def add(self, journal: Journal, lease_s: float) -> None:
        """Renew this journal's lease from now on."""
        with self._lock:
            if self._thread is None:
                thread = Thread(target=self._loop, name="holdfast-heartbeat", daemon=True)
                thread.start()
                self._thread = thread
            elif _beat_s(lease_s) < self._wait_s:
                self._wake.set()  # the thread waits for the beat of a longer lease
            self._journals[journal.run] = (journal, lease_s)

    def remove(self, journal: Journal) -> None:
        """Stop renewing it."""
        with self._lock:
            self._journals.pop(journal.run, None)

    def drain(self, runs: Iterable[str], wait_s: float = inf) -> None:
        """Let no new call begin in these runs: it raises Drained. Calls in flight get ``wait_s`` to end."""
        until = self._clock.monotonic() + wait_s
        with self._lock:
            for run in runs:
                if run in self._journals:
                    journal, _ = self._journals[run]
                    journal.is_drained, journal.drain_until = True, min(journal.drain_until, until)

    @property
    def runs(self) -> Iterable[str]:
        """The runs this process holds here."""
        return tuple(self._journals)

    def _loop(self) -> None:
        while True:
            with self._lock:
                self._wait_s = min(
                    (_beat_s(lease_s) for _, lease_s in self._journals.values()), default=_REST_S
                )
                self._wake.clear()
            self._wake.wait(self._wait_s)
            with self._lock:
                journals = [journal for journal, _ in self._journals.values()]
                if not journals:
                    self._thread = None
                    return
            # In a separate try: a beat that fails must not prevent the sync.
            self._beat(journals)
            self._try("no sync", journals, self._store.sync)

    def _try(self, lost: str, journals: list[Journal], act: Callable[..., None], *args: Any) -> None:
        """Call, and log any error: if this thread died, all leases of the process would expire unnoticed."""
        try:
            act(*args)
        except Exception as error:  # noqa: BLE001 - the next round tries again; an append of the holder raises
            runs = ", ".join(journal.run for journal in journals)
            is_known = isinstance(error, HoldfastError)
            log().warning("%s for %s: %s", lost, runs, error, exc_info=not is_known)

    def _beat(self, journals: list[Journal]) -> None:
        self._try("no beat", journals, self._renew, journals)
        for journal in journals:  # each in its own try: an unreadable inbox must not hide other cancellations
            self._try("no look for a cancellation", [journal], _look_for_cancel, self._store, journal)

    def _renew(self, journals: list[Journal]) -> None:
        fences = {journal.run: journal.fence for journal in journals if journal.lost is None}
        if not fences:
            return
        lost = self._store.renew(fences, at=self._clock.wall())
        for journal in journals:
            if journal.run in lost and journal.run in self._journals:
                row = self._store.find_run(journal.run)
                lease = Lease() if row is None else row.lease  # no row: another process erased the run
                # Same fence: this process released the lease after the list of journals was made.
                if lease.fence != journal.fence:
                    journal.lost = lease


def _beat_s(lease_s: float) -> float:
    """How long to wait for a beat of this lease."""
    return min(lease_s / BEATS_PER_LEASE, _REST_S)


def _look_for_cancel(store: StorePort, journal: Journal) -> None:
    if journal.lost is None and journal.cancelled is None:
        journal.cancelled = find_cancel(store, journal.run)
