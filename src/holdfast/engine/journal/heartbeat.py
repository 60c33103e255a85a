"""The background thread of a store: it beats for the leases this process holds and syncs what was only flushed.

Beats come from here and not from step progress, so a step may take as long as it likes. With each it looks whether
somebody has cancelled the run. Starts with the first lease and ends with the last.
"""

from collections.abc import Callable, Iterable
from math import inf
from threading import Event, Lock, Thread
from typing import Any

from holdfast.clock import Clock
from holdfast.engine.journal.inbox import find_cancel
from holdfast.engine.journal.journal import Journal
from holdfast.engine.log import log
from holdfast.errors import HoldfastError
from holdfast.limits import BEATS_PER_LEASE, FLUSH_SYNC_S
from holdfast.stores.port import StorePort


class Heartbeat:
    """Keeps the leases of one store alive."""

    def __init__(self, store: StorePort, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._journals: dict[str, tuple[Journal, float]] = {}
        self._wake = Event()
        self._thread: Thread | None = None

    def add(self, journal: Journal, lease_s: float) -> None:
        """Beat for this journal's lease from now on."""
        with self._lock:
            shortest_s = min((lease_s for _, lease_s in self._journals.values()), default=lease_s)
            self._journals[journal.run] = (journal, lease_s)
            if lease_s < shortest_s:
                self._wake.set()
            if self._thread is None:
                self._wake = Event()
                self._thread = Thread(
                    target=self._tend, args=(self._wake,), name="holdfast-tender", daemon=True
                )
                self._thread.start()

    def remove(self, journal: Journal) -> None:
        """Stop beating for it; the thread ends with the last one."""
        with self._lock:
            self._journals.pop(journal.run, None)
            if not self._journals:
                self._thread = None
                self._wake.set()

    def drain(self, runs: Iterable[str], wait_s: float = inf) -> None:
        """Let nothing new begin in these runs: the next call that would record something stops them. They get so long to end."""
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

    def _tend(self, wake: Event) -> None:
        while True:
            held = self._held(wake)
            lease_s = min((lease_s for _, lease_s in held), default=FLUSH_SYNC_S)
            # 0.8: the thread needs time to wake and the disk to sync, and 5 s is a promise
            if wake.wait(min(lease_s / BEATS_PER_LEASE, FLUSH_SYNC_S * 0.8)):
                wake.clear()
            held = self._held(wake)
            if not held:
                return
            journals = [journal for journal, _ in held]
            # Apart: the promise to sync does not depend on the beats.
            self._beat(journals)
            self._try("no sync", journals, self._store.sync)

    def _try(self, lost: str, journals: list[Journal], act: Callable[..., None], *args: Any) -> None:
        """Whatever a store raises, this thread lives: without it every lease of the process would run out in silence."""
        try:
            act(*args)
        except Exception as error:  # noqa: BLE001 - the holder learns of it when it appends; the next round tries again
            runs = ", ".join(journal.run for journal in journals)
            is_known = isinstance(error, HoldfastError)
            log().warning("%s for %s: %s", lost, runs, error, exc_info=not is_known)

    def _held(self, wake: Event) -> list[tuple[Journal, float]]:
        """What to beat for; nothing once this thread is not wanted any more."""
        with self._lock:
            return list(self._journals.values()) if self._wake is wake and self._thread is not None else []

    def _beat(self, journals: list[Journal]) -> None:
        self._try("no beat", journals, self._renew, journals)
        for journal in journals:  # each apart: one run's damaged inbox hides no other's cancellation
            self._try("no look for a cancellation", [journal], _look_for_cancel, self._store, journal)

    def _renew(self, journals: list[Journal]) -> None:
        fences = {journal.run: journal.fence for journal in journals if journal.lost is None}
        if not fences:
            return
        lost = self._store.renew(fences, at=self._clock.wall())
        for journal in journals:
            if journal.run in lost and journal.run in self._journals:
                row = self._store.find_run(journal.run)
                if row is not None and row.lease.fence != journal.fence:
                    journal.lost = row.lease


def _look_for_cancel(store: StorePort, journal: Journal) -> None:
    if journal.lost is None and journal.cancelled is None:
        journal.cancelled = find_cancel(store, journal.run)
