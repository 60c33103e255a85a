"""Going on without what was lost: a person says so, and the run's journal tells it from then on.

Crash windows: between the store's forgetting and the event, the loss is accepted and not told; it was accepted by a
person all the same. The other way round cannot be: nobody may write to a run that misses something.
"""

from holdfast.engine.journal.journal import Journal, draft
from holdfast.engine.journal.load_view import load
from holdfast.engine.run.maintenance_hold import holding
from holdfast.engine.run.store_session import Workshop
from holdfast.engine.run.sync_async import BLOCKING, drive
from holdfast.errors import UnknownRun
from holdfast.model.events import Kind


def accept_loss(workshop: Workshop, run: str, *, by: str) -> int:
    """Let a run go on from where its journal ends; how many acknowledged events it misses. 0 where it misses none.

    A run that is gone as a whole may begin again: it has no journal to tell that in.
    """
    store = workshop.store
    is_there = store.find_run(run) is not None
    missed = store.accept_loss(run)
    if not is_there and not missed:
        raise UnknownRun(run=run, store=store.url)
    if is_there and missed:
        with holding(workshop, run) as hold:
            view = load(store, run)
            journal = Journal(store, workshop.committer, run, hold.fence, view.head)
            cut = draft(Kind.JOURNAL_CUT, "", "", {"events": missed, "by": by})
            drive(journal.append(BLOCKING, [cut], workshop.clock.wall()))
    return missed
