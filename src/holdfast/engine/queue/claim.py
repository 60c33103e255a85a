"""Claims runs for a worker: runs that are due, and runs whose holder is gone.

A dead holder on this machine is found at once. Any other holder is watched: if its beat does not move for its
own ``lease_s``, by this process's monotonic clock, the lease is taken over by compare-and-set. So clocks that
differ do no harm, and of several workers only one gets the run.

Crash window: a worker that dies after a claim leaves a held run, which another worker takes over in the same
way.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.engine.journal.lease import give_back, held_row
from holdfast.engine.log import log
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import HoldfastError
from holdfast.limits import RUN_PAGE_MAX
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Lease, Liveness, RunRow, owner_name

LOOKS_PER_LEASE = 5
"""How often a worker looks at held runs within the time of a lease."""


class _Sighting(NamedTuple):
    lease: Lease
    at: float


class Claims:
    """Claims runs of some agents in one store for this process."""

    def __init__(self, session: StoreSession, agents: Sequence[str]) -> None:
        self._session = session
        self._agents = tuple(agents)
        self._sightings: dict[str, _Sighting] = {}
        self._gone: list[tuple[RunRow, str]] = []
        """Runs whose holder is gone, not taken over yet: there may be more than this worker has room for."""
        self._look_at = 0.0

    def take(self, limit: int, mine: Callable[[], Iterable[str]]) -> list[RunRow]:
        """Up to ``limit`` runs, each under a lease of this process. ``mine`` are those that it runs already.

        If the store fails after the first, returns those that are taken: nothing else would release them.
        """
        store, clock, lease_s = self._session.store, self._session.clock, self._session.lease_s
        if not self._gone and clock.monotonic() >= self._look_at:
            self._look(mine)
        taken: list[RunRow] = []
        try:
            self._take_over(taken, limit)
            if len(taken) < limit:
                left = limit - len(taken)
                taken += store.claim(self._agents, at=clock.wall(), lease_s=lease_s, limit=left)
        except HoldfastError as error:
            if not taken:
                raise
            log().warning("the store cannot be asked for more work: %s", error)
        return taken

    def _take_over(self, taken: list[RunRow], limit: int) -> None:
        """Take over runs whose holder is gone, except those with a new beat or another holder since."""
        clock, store = self._session.clock, self._session.store
        while self._gone and len(taken) < limit:
            seen, how = self._gone.pop()
            row = store.find_run(seen.run)  # read again: some time may have passed since the look
            if row is None or row.lease != seen.lease:
                continue
            grant = store.acquire(row.run, at=clock.wall(), lease_s=self._session.lease_s, over=row.lease)
            if grant.granted:
                log().warning(
                    "taking run %s over from %s, which is %s", row.run, owner_name(row.lease.owner), how
                )
                try:
                    taken.append(held_row(store, row.run))
                except BaseException:
                    give_back(store, row.run, grant.lease.fence)
                    raise

    def _look(self, mine: Callable[[], Iterable[str]]) -> None:
        """Find the runs whose holder is dead, or was silent for its whole ``lease_s``."""
        clock, store = self._session.clock, self._session.store
        now = clock.monotonic()
        held = {row.run: row for row in self._held()}
        if clock.monotonic() - now > self._session.lease_s / 2:
            self._sightings = {}  # the store did not answer: no holder could beat, and that is no silence
        for run in mine():
            held.pop(run, None)
        self._sightings = {run: self._sighting(row, now) for run, row in held.items()}
        fates: dict[str, Liveness] = {}
        for row in held.values():
            fates.setdefault(row.lease.owner, store.probe(row.lease.owner))
            seen = self._sightings[row.run]
            if fates[row.lease.owner] == "dead":
                self._gone.append((row, "dead"))
            elif now - seen.at >= seen.lease.lease_s:
                self._gone.append((row, "silent"))
        random.shuffle(
            self._gone
        )  # other workers see the same list: in the same order, all would try the same run
        shortest_s = min((row.lease.lease_s for row in held.values()), default=self._session.lease_s)
        self._look_at = now + min(shortest_s, self._session.lease_s) / LOOKS_PER_LEASE

    def _held(self) -> Iterator[RunRow]:
        after = ""
        while page := self._session.store.list_held(self._agents, after=after, limit=RUN_PAGE_MAX):
            yield from page
            after = page[-1].run

    def _sighting(self, row: RunRow, now: float) -> _Sighting:
        """When this lease was first seen with this beat."""
        before = self._sightings.get(row.run)
        if before is not None and (before.lease.fence, before.lease.beat) == (
            row.lease.fence,
            row.lease.beat,
        ):
            return before
        return _Sighting(row.lease, now)
