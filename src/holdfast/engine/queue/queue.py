"""The queue from a run's side: what its holder says when it lets go, and how a run is called up for a worker.

The lease is what tells that an attempt is not over: everything here happens before it is let go, and whoever takes over
from a holder that died in between does it again.
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

_TOLD = OVER | {Status.FAILED}
"""How a child stands when whoever waits for it can go on."""
_WAKING = frozenset({"child", "outcome"})
"""Letters that a run has no use for once it is over: they may come late."""
_REASONS_MAX = 5


class Queue(Feature):
    """The queue's part of a run that a worker may take, or that another run waits for."""

    def __init__(self, held: HeldRun) -> None:
        super().__init__(held)
        self.waited_for_by = waited_for_by(held.view)
        self._letters_seen: frozenset[str] = frozenset()
        """In the inbox, after it was drained."""

    async def entered(self, runtime: Runtime) -> None:
        """The inbox is drained: what comes now is new."""
        if self.held.agent:
            self._letters_seen = await runtime.store(letter_ids, self.held.store, self.held.run)

    async def ended(self, runtime: Runtime, error: BaseException | None) -> None:
        """Before the lease goes: say when the run is due next, and tell the one that waits for it."""
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
            # A letter that came after we looked into the inbox has called the run up before it was said that nobody need come.
            if held.status not in OVER and letter_ids(store, run) - self._letters_seen:
                store.call_up(run, at=now)
        tell_parent(store, run, self.waited_for_by, held.status, now)


def tell_parent(store: StorePort, run: str, parent: str, status: str, now: float) -> None:
    """Leave word with the run that waits for this one, if it can go on now. Done twice, it is as done once."""
    if parent and status in _TOLD and store.find_run(parent) is not None:
        inbox.post(store, parent, f"child-{run}", {"kind": "child", "run": run}, at=now)


def check_poison(held: HeldRun, crashes_max: int) -> None:
    """Poisoned, where so many attempts before this one crashed without getting on."""
    vain = crashes_in_vain(held.view)
    if len(vain) < crashes_max:
        return
    told = [
        f"attempt {body['attempt']} ({owner_name(body['owner'])}) {body['last']}"
        for event in read_own(held.store, held.run, vain[0].event.seq, None)
        if event.kind == Kind.ATTEMPT_CRASHED and (body := contents_of(event.body))
    ]
    reason = f"its last {len(vain)} attempts crashed without getting on: {'; '.join(told[-_REASONS_MAX:])}"
    raise Poisoned(run=held.run, agent=held.agent, reason=reason)


def stand_down(store: StorePort, row: RunRow, now: float) -> None:
    """A worker has taken a run that needs none: whatever its last holder did not come to is done, and it is let go."""
    if row.status in _TOLD:
        tell_parent(store, row.run, waited_for_by(load(store, row.run)), row.status, now)
    if row.status in OVER:
        for record, letter in inbox.waiting(store, row.run):
            if letter["kind"] in _WAKING:
                store.delete_record(record.space, record.key, revision=record.revision)
    let_go(store, row, None)


def let_go(store: StorePort, row: RunRow, due_at: float | None) -> None:
    """Give back a run that was claimed and not entered."""
    store.set_due(row.run, fence=row.lease.fence, due_at=due_at)
    give_back(store, row.run, row.lease.fence)


def is_suspect(store: StorePort, run: str, crashes_max: int) -> bool:
    """Whether one more crash of this run, which was claimed and not entered, is one too many."""
    return queue.is_suspect(load(store, run), crashes_max)


def letter_ids(store: StorePort, run: str) -> frozenset[str]:
    """What lies in a run's inbox."""
    return frozenset(record.key for record in store.scan_records(inbox_space(run), limit=RECORD_PAGE_MAX))
