"""Prunes and deletes runs of frameworks, and drops single checkpoints; under the lease, which it waits for.

Deleting is not erasing: packs that only this run needs are deleted with it, its values with the next prune of
the store, and the files keep their size. Forks first get a copy of the history that they share.

Crash windows: a run is deleted in one transaction; a crash after it leaves records that nothing refers to,
and blobs that the next prune of the store deletes. A crash while checkpoints are dropped leaves some of them
dropped; dropping them again continues.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.core.journal.hollow import hollowed, rebodied
from holdfast.core.threads.chains import with_their_base
from holdfast.engine.journal.lease import give_back
from holdfast.engine.journal.load_view import forget_snapshot
from holdfast.engine.lineage import kin
from holdfast.engine.prune.erase import delete_records, see_to_forks
from holdfast.engine.prune.prune_run import (
    batches,
    note_doomed,
    of_lineage,
    own_events,
    prune_run,
)
from holdfast.engine.run.maintenance_hold import Hold
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.threads.shared_hold import hold
from holdfast.errors import LeaseLost
from holdfast.limits import CHAIN_WAIT_S
from holdfast.model.event_fields import fields_of, rewritten
from holdfast.model.events import CHAINED, PENDING, Event
from holdfast.model.retention import Keep, Retention
from holdfast.model.store_rows import Removal, RunRow

LATEST = Retention(reasoning=Keep(), chunks=Keep(), checkpoints=Keep(last=0), compact_events=None)
"""Keeps the latest checkpoint of each chain, and the checkpoints that it needs."""
_ALL = LATEST._replace(checkpoints=Keep())


@contextmanager
def _held(session: StoreSession, run: str) -> Iterator[Hold]:
    lease = hold(session, run, session.clock.monotonic() + CHAIN_WAIT_S)
    try:
        yield Hold(session, run, lease)
    finally:
        give_back(session.store, run, lease.fence)


def prune(session: StoreSession, run: str, policy: Retention = LATEST) -> None:
    """Prune the run. Durable when it returns. RunHeld if another process keeps the lease."""
    if session.store.find_run(run) is not None:
        with _held(session, run) as held:
            prune_run(session.store, session.clock, run, policy, held.fence)


def delete(session: StoreSession, run: str) -> None:
    """Delete the run. Durable when it returns. RunHeld if another process holds it or a fork of it."""
    store = session.store
    if store.find_run(run) is None:
        return
    began_at = session.clock.wall()
    kin.note_all(store)
    with _held(session, run) as held:
        while True:
            see_to_forks(session, held, flatten=True)
            row = held.row()
            doomed, lineage = _only_here(session, row), kin.lineage_name(store, run)
            # The store refuses if the run was forked meanwhile; the next round flattens that fork, too.
            if store.delete_runs([Removal(run, held.fence, row.revision)]) == [True]:
                break
    delete_records(store, run)
    kin.forget(store, lineage, run)
    for batch in batches(sorted(doomed)):
        store.delete_blobs(batch, untouched_since=began_at)


def _only_here(session: StoreSession, row: RunRow) -> set[str]:
    store = session.store
    family = kin.family_of(store, row.run)
    if not family.is_whole:
        return set()  # an importing or damaged run may need any of them: leave them to a later prune
    others = [
        event for other in family.rows.values() if other.run != row.run for event in own_events(store, other)
    ]
    return of_lineage(store, own_events(store, row)) - of_lineage(store, others)


def drop(session: StoreSession, run: str, is_meant: Callable[[Event], bool]) -> None:
    """Remove these checkpoints with their pending writes. One that others need stays, but is hidden."""
    store = session.store
    with _held(session, run) as held:
        row = held.row()
        own = own_events(store, row)
        meant = {event.seq: event for event in own if event.name == CHAINED and is_meant(event)}
        if not meant:
            return
        left = {event.seq for event in own if event.name == CHAINED and event.seq not in meant}
        needed = with_their_base(left, {event.seq: event for event in own})
        gone = {seq: event for seq, event in meant.items() if seq not in needed}
        ids = {(body["chain"], body["id"]) for body in (fields_of(event.body) for event in gone.values())}
        gone |= {event.seq: event for event in own if event.name == PENDING and _place(event) in ids}
        # Before the events go: after a crash, these notes are all that leads to their packs.
        note_doomed(store, run, of_lineage(store, list(gone.values())))
        forget_snapshot(store, run)
        revision = row.revision
        for seq in sorted({*gone, *meant}):
            event = gone.get(seq)
            made = (
                rebodied(run, meant[seq], rewritten(meant[seq].body, hidden=True))
                if event is None
                else hollowed(run, event, _CLASSES[event.name])
            )
            is_done = store.replace_events(
                run,
                fence=held.fence,
                revision=revision,
                after_seq=seq - 1,
                upto_seq=seq,
                events=[made],
                at=session.clock.wall(),
            )
            if not is_done:
                raise LeaseLost(
                    run=run, owner="another process", fence_now=0, fence=held.fence, head=row.head
                )
            revision += 1
        prune_run(store, session.clock, run, _ALL, held.fence)


_CLASSES = {CHAINED: "checkpoints", PENDING: "pending"}


def _place(event: Event) -> tuple[str, str]:
    body = fields_of(event.body)
    return body["chain"], body["on"]
