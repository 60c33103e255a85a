"""The queue from a run's side: when it is due after an attempt, and how its parent learns of its end.

Invariant: all of this happens before the lease is released. Crash window: a holder that dies in between
leaves a held run; the worker that takes it over does all of it again, and doing it twice is the same as once.
"""

from holdfast.core.queue import queue
from holdfast.core.queue.queue import crashes_in_vain, due_after, waited_for_by
from holdfast.engine.journal import inbox
from holdfast.engine.journal.journal import read_own
from holdfast.engine.journal.lease import give_back
from holdfast.engine.journal.load_view import load
from holdfast.engine.run.features import Feature
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import Runtime
from holdfast.errors import Parked, Poisoned
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.model.store_rows import OVER, RunRow, Status, inbox_space, owner_name
from holdfast.stores.port import StorePort

_ENDED = OVER | {Status.FAILED}
"""The statuses of a child with which its parent can continue."""
_WAKING = frozenset({"child", "outcome"})
"""Kinds of letters that are useless once the run is over; they may arrive late."""
_REASONS_MAX = 5


class Queue(Feature):
    """The feature of a run that a worker may take, or that another run waits for."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self.waited_for_by = waited_for_by(held.view)
        self._letters_seen: frozenset[str] = frozenset()
        """The letters that were in the inbox after it was drained."""

    async def entered(self, runtime: Runtime) -> None:
        """Remember the letters that are left after the inbox was drained: others are new."""
        if self.held.agent:
            self._letters_seen = await runtime.store(letter_ids, self.held.store, self.held.run)

    async def ended(self, runtime: Runtime, error: BaseException | None) -> None:
        """Set when the run is due next, and wake the run that waits for it."""
        await runtime.store(self._hand_back, error)

    def _hand_back(self, error: BaseException | None) -> None:
        held = self.held
        store, run, journal = held.store, held.run, held.journal
        assert journal is not None
        now = held.clock.wall()
        if held.agent:
            until = error.until if isinstance(error, Parked) else None
            due_at = due_after(held.status, until, now, is_drained=journal.is_drained)
            store.set_due(run, fence=journal.fence, due_at=due_at)
            # A letter that arrived since made the run due, and ``set_due`` has just overwritten that.
            if held.status not in OVER and letter_ids(store, run) - self._letters_seen:
                store.call_up(run, at=now)
        tell_parent(store, run, self.waited_for_by, held.status, now)


def tell_parent(store: StorePort, run: str, parent: str, status: str, now: float) -> None:
    """Post a letter to the run that waits for this one, if this one has ended. Idempotent."""
    if parent and status in _ENDED and store.find_run(parent) is not None:
        inbox.post(store, parent, f"child-{run}", {"kind": "child", "run": run}, at=now)


def check_poison(held: HeldRun, crashes_max: int) -> None:
    """Poisoned if this many attempts before this one crashed without a new outcome."""
    vain = crashes_in_vain(held.view)
    if len(vain) < crashes_max:
        return
    crashes = [
        f"attempt {body['attempt']} ({owner_name(body['owner'])}) {body['last']}"
        for event in read_own(held.store, held.run, vain[0].event.seq, None)
        if event.kind == Kind.ATTEMPT_CRASHED and (body := contents_of(event.body))
    ]
    reason = f"its last {len(vain)} attempts crashed without getting on: {'; '.join(crashes[-_REASONS_MAX:])}"
    raise Poisoned(run=held.run, agent=held.agent, reason=reason)


def stand_down(store: StorePort, row: RunRow, now: float) -> None:
    """Release a claimed run that needs no worker, after what its last holder may have left undone."""
    if row.status in _ENDED:
        tell_parent(store, row.run, waited_for_by(load(store, row.run)), row.status, now)
    if row.status in OVER:
        for record, letter in inbox.waiting(store, row.run):
            if letter["kind"] in _WAKING:
                store.delete_record(record.space, record.key, revision=record.revision)
    let_go(store, row, None)


def is_emptied(store: StorePort, row: RunRow) -> bool:
    """Whether a rewind of its parent has emptied this claimed run.

    It has no inputs until the parent asks for it again. A letter makes such a run due, too: executed then, it
    would begin without inputs, or with wrong ones.
    """
    return row.status == Status.QUEUED and row.head > 1 and load(store, row.run, row).started is None


def let_go(store: StorePort, row: RunRow, due_at: float | None) -> None:
    """Release a run that was claimed and not entered."""
    store.set_due(row.run, fence=row.lease.fence, due_at=due_at)
    give_back(store, row.run, row.lease.fence)


def is_suspect(store: StorePort, run: str, crashes_max: int) -> bool:
    """Whether one more crash would poison this run, which is claimed and not entered yet."""
    return queue.is_suspect(load(store, run), crashes_max)


def letter_ids(store: StorePort, run: str) -> frozenset[str]:
    """The ids of the letters in a run's inbox."""
    return frozenset(record.key for record in store.scan_records(inbox_space(run), limit=RECORD_PAGE_MAX))
