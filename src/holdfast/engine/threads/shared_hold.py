"""Holds a framework-owned run while its steps execute.

A framework does not say when its turn begins or ends. So the first step in flight takes the lease, the last
one releases it, and concurrent steps share it. One process is one attempt, however often it takes the lease.
An attempt cannot know that it was the last, so the next attempt records how it ended.

A step is identified by its key alone. If its failure is recorded and the framework asks again, the framework
has decided to retry, and the step runs again.

Crash windows: a crash in a step leaves the lease to expire; the next attempt records this one as crashed. A
crash between two steps leaves nothing open; the next attempt records this one as closed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from holdfast.core.journal.fold import View, fold
from holdfast.core.journal.run_row_facts import owner_of
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.engine.journal import inbox
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.journal.journal import Journal, read_all
from holdfast.engine.journal.lease import give_back, take, with_lease_of
from holdfast.engine.journal.load_view import load
from holdfast.engine.lineage import fork
from holdfast.engine.lineage.outcomes_elsewhere import settle_from_origin
from holdfast.engine.log import log
from holdfast.engine.run import cancel
from holdfast.engine.run.close import let_go, unsettled
from holdfast.engine.run.entry import Entry, attempt_of, started_of
from holdfast.engine.run.features import waking
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.run.sealed import check_may_act
from holdfast.engine.run.unseen_ends import crashed
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import HoldfastError, RunHeld
from holdfast.limits import CHAIN_WAIT_S
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind
from holdfast.model.store_rows import OVER, Lease, RunRow, Status

if TYPE_CHECKING:
    from holdfast.engine.run.store_session import StoreSession

_PAUSE_S = 0.02


class SharedHold:
    """One run's shared hold in this process, and the number of steps that share it."""

    __slots__ = ("held", "lock", "users")

    def __init__(self) -> None:
        self.lock = Lock()
        self.held: HeldRun | None = None
        self.users = 0


class SharedHolds:
    """The runs of one store that this process holds for frameworks."""

    def __init__(self) -> None:
        self.by_run: dict[str, SharedHold] = {}
        self.lock = Lock()


@contextmanager
def share(session: "StoreSession", entry: Entry) -> Iterator[HeldRun]:
    """Hold the run during the block, shared with other steps of this process. RunHeld by another process."""
    holds = session.part(SharedHolds)
    with holds.lock:
        shared = holds.by_run.setdefault(entry.run, SharedHold())
        shared.users += 1  # before the wait for the lock: a step that ends now leaves the hold to this one
        session.framework_runs.add(entry.run)
    try:
        with shared.lock:
            if shared.held is None:
                shared.held = _begin(session, entry)
            held = shared.held
        yield held
    finally:
        with shared.lock:
            with holds.lock:
                is_last = shared.users == 1
            if is_last and shared.held is not None:
                _end(shared.held)
                shared.held = None
            with holds.lock:
                shared.users -= 1
                if not shared.users:
                    del holds.by_run[entry.run]
                    session.framework_runs.discard(entry.run)


def journal_of(session: "StoreSession", run: str) -> Journal | None:
    """The journal of a run that this process holds for a framework, for its other writers; or None."""
    shared = session.part(SharedHolds).by_run.get(run)
    held = None if shared is None else shared.held
    return None if held is None or held.journal is None or held.journal.lost is not None else held.journal


def ensure(session: "StoreSession", entry: Entry) -> RunRow:
    """The run's row; created if there is none. RunSealed; RunCancelled."""
    import os

    store = session.store
    row = store.find_run(entry.run)
    while row is None:
        store.create_run(RunRow(entry.run, os.urandom(16).hex(), session.clock.wall(), Status.IDLE, b"{}"))
        row = store.find_run(entry.run)
    check_may_act(store, row)
    if row.status in OVER:
        raise cancel.refusal(store, row)
    return row


def beginning(row: RunRow, entry: Entry) -> list[Draft]:
    """The first own event of a run, if it has none yet."""
    if row.origin is not None:
        return [fork.forked_of(row)] if row.head == row.origin_seq else []
    return [started_of(entry)] if row.head == 0 else []


def hold(session: "StoreSession", run: str, until: float) -> Lease:
    """The lease of the run; waits until then for a process that holds it. RunHeld."""
    clock = session.clock
    while True:
        try:
            return drive(take(BLOCKING, session.store, clock, run, session.lease_s))
        except RunHeld:
            if clock.monotonic() >= until:
                raise
            clock.sleep(_PAUSE_S)


def _begin(session: "StoreSession", entry: Entry) -> HeldRun:
    store, run = session.store, entry.run
    before = ensure(session, entry)
    lease = hold(session, run, session.clock.monotonic() + CHAIN_WAIT_S)
    try:
        row = ensure(session, entry)
        before = with_lease_of(row, before)
        view = load(store, run, row)
        journal = Journal(store, session.committer, run, lease.fence, row.head)
        letters, letter = inbox.waiting_and_cancel(store, run)
        if drive(cancel.take_in(BLOCKING, session, before, view, journal, letter)):
            raise cancel.refusal(store, row)
        drafts = [*beginning(row, entry), *_attempt(session, view, before, lease, entry)]
        if drafts:
            drive(journal.append(BLOCKING, drafts, session.clock.wall()))
            fold(read_all(store, run, after_seq=row.head), view)
        held = HeldRun(session, row, view, journal)
        held.status, held.may_drift = row.status, False
        for key, call in view.calls.items():
            # An explicit key is answered by its last success; after a recorded failure it runs again.
            call.taken = len(call.outcomes) if key.endswith(".k") else 0
        session.heartbeat.add(journal, session.lease_s)
        try:
            drive(inbox.drain_on_entering(held, BLOCKING, letters))
            for name in waking(held):
                held.feature(name)
            drive(settle_from_origin(held, BLOCKING, row))
        except BaseException:
            session.heartbeat.remove(journal)
            raise
    except BaseException:
        give_back(store, run, lease.fence)
        raise
    return held


def _attempt(session: "StoreSession", view: View, before: RunRow, lease: Lease, entry: Entry) -> list[Draft]:
    """The start of this process's attempt, unless it is recorded; and the end of the attempt before."""
    store, last = session.store, view.crashed_attempt
    if last is None:
        return [attempt_of(store, view.next_attempt, lease, entry, acts_as=owner_of(before))]
    if fields_of(last.event.body)["owner"] == store.owner:
        return []
    if before.lease.owner or any(call.seq > last.event.seq for call in view.open_calls()):
        ended = crashed(store, before.run, view, last, before.lease)
    else:  # it had no call in flight: however its process ended, the run lost nothing
        took_s = max(0.0, (view.last.at if view.last else last.event.at) - last.event.at)
        ended = draft(
            Kind.ATTEMPT_ENDED, "", "", {"how": "closed", "status": Status.IDLE, "took_s": round(took_s, 6)}
        )
    return [ended, attempt_of(store, view.next_attempt, lease, entry, acts_as=owner_of(before))]


def _end(held: HeldRun) -> None:
    """No step is in flight any more: record the status, and release the run."""
    assert held.journal is not None
    status = (
        Status.IN_DOUBT if unsettled(held) else Status.PARKED if QUESTIONS.of(held.view).open else Status.IDLE
    )
    try:
        if held.journal.lost is None and status != held.status:
            drive(held.journal.append(BLOCKING, [], held.clock.wall(), status=status))
    except HoldfastError as error:
        log().warning("run %s is %s, and that could not be recorded: %s", held.run, status, error)
    finally:
        let_go(held)
