"""Holds a run for work that is not an attempt: moving, importing, pruning or erasing it.

The work itself renews the lease between its batches, without the heartbeat thread: no user code runs that
could take arbitrarily long. A crash leaves the lease to expire, and what was appended stays: each user of
this module says what that means.
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
        """The run's row now. LeaseLost if another process has the lease; Corrupt, unless ``damaged``."""
        row = self._session.store.find_run(self.run, damaged=damaged)
        if row is None or row.lease.fence != self.fence:
            raise self._lost(row.lease if row else Lease(), row.head if row else 0)
        return row

    def beat(self) -> None:
        """Renew the lease if it is time. LeaseLost if another process has it."""
        clock = self._session.clock
        if clock.monotonic() - self._beaten < self._session.lease_s / BEATS_PER_LEASE:
            return
        self._beaten = clock.monotonic()
        if self._session.store.renew({self.run: self.fence}, at=clock.wall()):
            self.row(damaged=True)  # raises LeaseLost if another process has it

    def append(
        self, after_seq: int, events: tuple[Event, ...], *, status: str, blobs: tuple[Blob, ...] = ()
    ) -> None:
        """Append finished events. LeaseLost; Corrupt if the head is not ``after_seq``.

        Durable when it returns.
        """
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
    """Hold the run's lease during the block. RunHeld if a live process has it."""
    lease = drive(take(BLOCKING, session.store, session.clock, run, session.lease_s, above=above))
    try:
        yield Hold(session, run, lease)
    finally:
        give_back(session.store, run, lease.fence)


def batches(events: Iterable[Event]) -> Iterator[tuple[Event, ...]]:
    """The events in batches that fit in one append."""
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
    """The error for a run that changes faster than a compare-and-set loop can follow."""
    return StoreUnavailable(store=store.url, problem=f"run {run} changes faster than it can be forked")
