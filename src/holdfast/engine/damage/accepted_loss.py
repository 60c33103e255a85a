"""Going on without what was lost: a person says so, and the run's journal tells it from then on.

Crash windows: between the store's forgetting and the event, the loss is accepted and not told; it was accepted by a
person all the same. The other way round cannot be: nobody may write to a run that misses something.
"""

from holdfast.engine.journal.journal import Journal, draft
from holdfast.engine.journal.load_view import load
from holdfast.engine.run.maintenance_hold import holding
from holdfast.engine.run.store_session import Workshop
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import UnknownRun
from holdfast.model.events import Kind


def accept_loss(workshop: Workshop, run: str, *, by: str) -> int:
    """Let a run go on from where its journal ends; how many acknowledged events it misses. 0 where it misses none."""
    store = workshop.store
    if store.find_run(run) is None:
        raise UnknownRun(run=run, store=store.url)
    missed = store.accept_loss(run)
    if missed:
        with holding(workshop, run) as hold:
            view = load(store, run)
            journal = Journal(store, workshop.committer, run, hold.fence, view.head)
            cut = draft(Kind.JOURNAL_CUT, "", "", {"events": missed, "by": by})
            drive(journal.append(BLOCKING, [cut], workshop.clock.wall()))
    return missed
