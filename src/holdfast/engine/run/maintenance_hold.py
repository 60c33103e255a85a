"""Holding a run for a piece of work that is not an attempt: moving it, bringing it in, taking it away.

The lease is kept alive by the work itself, which beats between its steps: there is no program whose step could take
for ever.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from holdfast.engine.journal.lease import give_back, take
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import Corrupt, LeaseLost, StoreUnavailable
from holdfast.limits import APPEND_EVENTS_MAX, APPEND_SIZE_BYTES_MAX, BEATS_PER_LEASE
from holdfast.model.events import Event
from holdfast.model.store_rows import (
    Append,
    Appended,
    AppendOutcome,
    Blob,
    Lease,
    Refusal,
    RunRow,
    owner_name,
)
from holdfast.stores.port import StorePort


class Hold:
    """A run under our lease."""

    def __init__(self, session: StoreSession, run: str, lease: Lease) -> None:
        self.run = run
        self.fence = lease.fence
        self._session = session
        self._beaten = session.clock.monotonic()

    def row(self, *, damaged: bool = False) -> RunRow:
        """The run as it stands now. LeaseLost when somebody else took it; Corrupt, unless a damaged one is asked for."""
        row = self._session.store.find_run(self.run, damaged=damaged)
        if row is None or row.lease.fence != self.fence:
            raise self._lost(row.lease if row else Lease(), row.head if row else 0)
        return row

    def beat(self) -> None:
        """Show that we are at it, if it is time. LeaseLost when somebody else took the run."""
        clock = self._session.clock
        if clock.monotonic() - self._beaten < self._session.lease_s / BEATS_PER_LEASE:
            return
        self._beaten = clock.monotonic()
        if self._session.store.renew({self.run: self.fence}, at=clock.wall()):
            self.row(damaged=True)

    def append(
        self, after_seq: int, events: tuple[Event, ...], *, status: str, blobs: tuple[Blob, ...] = ()
    ) -> None:
        """Append events as they are. LeaseLost; Corrupt where the journal is not where it should be."""
        item = Append(self.run, self.fence, after_seq, events, blobs, status=status)
        (outcome,) = self._session.store.append([item])
        self.check(outcome)
        self.beat()

    def check(self, outcome: AppendOutcome) -> None:
        """What the store said to an append under this hold. LeaseLost; Corrupt."""
        if not isinstance(outcome, Appended):
            raise self._refused(outcome)

    def _refused(self, outcome: Refusal) -> BaseException:
        if outcome.reason == "fenced":
            return self._lost(outcome.lease, outcome.head)
        what = f"refers to absent blobs {outcome.missing}" if outcome.missing else f"moved to #{outcome.head}"
        return Corrupt(store=self._session.store.url, problem=f"run {self.run} {what} under its holder")

    def _lost(self, lease: Lease, head: int) -> LeaseLost:
        return LeaseLost(
            run=self.run,
            owner=owner_name(lease.owner),
            fence_now=lease.fence,
            fence=self.fence,
            head=head + 1,
        )


@contextmanager
def holding(session: StoreSession, run: str, *, above: int = 0) -> Iterator[Hold]:
    """The run under our lease for as long as the block takes. RunHeld while somebody alive has it."""
    lease = drive(take(BLOCKING, session.store, session.clock, run, session.lease_s, above=above))
    try:
        yield Hold(session, run, lease)
    finally:
        give_back(session.store, run, lease.fence)


def batches(events: Iterable[Event]) -> Iterator[tuple[Event, ...]]:
    """The events in pieces that one append takes."""
    batch: list[Event] = []
    size = 0
    for event in events:
        if batch and (len(batch) == APPEND_EVENTS_MAX or size + len(event.body) > APPEND_SIZE_BYTES_MAX):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(event)
        size += len(event.body)
    if batch:
        yield tuple(batch)


def restless(store: StorePort, run: str) -> StoreUnavailable:
    """The error for a run that changes again and again while it is looked at."""
    return StoreUnavailable(store=store.url, problem=f"run {run} changes faster than it can be forked")
