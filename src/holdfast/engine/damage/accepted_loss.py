"""Records that a person accepts the loss of events, after which the run may continue.

Crash windows: the store clears the loss first, and then the journal gets the event. Killed in between, the
loss is accepted but the journal does not say so. The other order is impossible: the store refuses to write to
a run that lacks events. The row of a salvaged run names the loss; that field is removed last, so that a
killed acceptance is repeated.
"""

from holdfast.core.journal.run_row_facts import facts_of, with_facts
from holdfast.engine.journal.drafts import draft
from holdfast.engine.journal.journal import Journal
from holdfast.engine.journal.load_view import load
from holdfast.engine.run.maintenance_hold import Hold, holding, restless
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import UnknownRun
from holdfast.model.events import Kind
from holdfast.model.store_rows import OVER


def accept_loss(session: StoreSession, run: str, *, by: str) -> int:
    """Let a run continue after its last event. Returns how many acknowledged events are lost, or 0.

    A run whose journal is gone completely may start again; there is no journal to record the loss in.
    """
    store = session.store
    row = store.find_run(run)
    missed = store.accept_loss(run)
    if row is None:
        if not missed:
            raise UnknownRun(run=run, store=store.url)
        return missed
    lost: int = facts_of(row).get("lost", 0)
    missed = max(missed, lost - row.head, 0)
    if missed or lost:
        with holding(session, run) as hold:
            _accept(session, hold, missed, by)
    return missed


def _accept(session: StoreSession, hold: Hold, missed: int, by: str) -> None:
    store = session.store
    view = load(store, hold.run)
    if view.started is not None:
        journal = Journal(store, session.committer, hold.run, hold.fence, view.head)
        cut = draft(Kind.JOURNAL_CUT, "", "", {"events": missed, "by": by})
        drive(journal.append(BLOCKING, [cut], session.clock.wall()))
    row = hold.row()
    if "lost" not in facts_of(row):
        return
    body = with_facts(row, lost=None)
    if not store.swap_run(hold.run, revision=row.revision, status=row.status, body=body):
        raise restless(store, hold.run)
    if row.agent and row.status not in OVER:  # until now no worker was allowed to claim it
        store.set_due(hold.run, fence=hold.fence, due_at=session.clock.wall())
