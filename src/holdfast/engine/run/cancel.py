"""Cancels a run: posts a letter, which the holder of the run records.

The holder sees the letter at once while it waits for the inbox, else on its next beat. The next call that
would record something raises ``Cancelled``, and leaving the block records the cancellation. If no live
process holds the run, the canceller takes the lease and records it.

Crash window: the append that records the cancellation also deletes the letter. Before it, the next process
that enters the run finds the letter and records it.
"""

from typing import Any

from holdfast.core.journal.fold import View
from holdfast.core.text.times import moment
from holdfast.engine.journal import inbox
from holdfast.engine.journal.damaged_records import discard
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.journal.journal import Journal
from holdfast.engine.journal.lease import with_lease_of
from holdfast.engine.journal.load_view import load
from holdfast.engine.run.store_session import StoreSession
from holdfast.engine.run.unseen_ends import catching_up
from holdfast.engine.sync_async import BLOCKING, Runtime, drive
from holdfast.errors import RunCancelled, RunHeld
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind
from holdfast.model.store_rows import OVER, RunRow, Status, inbox_space
from holdfast.stores.port import StorePort

_END_EVENTS = 8
"""RUN_CANCELLED is among this many last events of a cancelled run."""


def cancel(session: StoreSession, row: RunRow, *, by: str, reason: str) -> bool:
    """Cancel the run, durably. False if its holder may be alive: then the holder records it."""
    store = session.store
    content = {"kind": "cancel", "by": by, "reason": reason}
    inbox.post(store, row.run, inbox.CANCEL, content, at=session.clock.wall())
    if row.lease.owner and store.probe(row.lease.owner) != "dead":
        return False  # if the holder is dead after all, the next process that enters the run finds the letter
    from holdfast.engine.run.maintenance_hold import holding

    try:
        with holding(session, row.run) as hold:
            row = with_lease_of(hold.row(), row)
            view = load(store, row.run)
            journal = Journal(store, session.committer, row.run, hold.fence, view.head)
            letter = inbox.find_cancel(store, row.run)
            return drive(take_in(BLOCKING, session, row, view, journal, letter))
    except RunHeld:  # another process entered it just now, and finds the letter
        return False


async def take_in(
    runtime: Runtime,
    session: StoreSession,
    row: RunRow,
    view: View,
    journal: Journal,
    letter: dict[str, Any] | None,
) -> bool:
    """Record the cancellation if there is a letter. ``row`` has the lease from before we took it."""
    store = session.store
    if letter is None:
        return False
    if view.status in OVER:  # too late: the run had ended, and reopening it is a later decision
        await runtime.store(_discard, store, row.run)
        return False
    drafts = [*await runtime.store(catching_up, store, row, view), event_of(letter)]
    at = session.clock.wall()
    await journal.append(runtime, drafts, at, status=Status.CANCELLED, consumed=(inbox.CANCEL,))
    return True


def event_of(letter: dict[str, Any]) -> Draft:
    """The event that records a cancellation."""
    fields = {"by": letter["by"], "asked_at": letter["at"]}
    return draft(Kind.RUN_CANCELLED, "", "", fields, parts={"reason": letter["reason"]})


def refusal(store: StorePort, row: RunRow) -> RunCancelled:
    """The error for entering a cancelled run."""
    row = store.find_run(row.run) or row
    last = store.read_events(row.run, after_seq=max(row.head - _END_EVENTS, 0), limit=_END_EVENTS)
    event = next((event for event in reversed(last) if event.kind == Kind.RUN_CANCELLED), None)
    body = {"by": "a person", "reason": ""} if event is None else contents_of(event.body)
    at = moment(row.created_at if event is None else event.at)
    why = f": {body['reason']}" if body["reason"] else ""
    return RunCancelled(run=row.run, by=body["by"], at=at, why=why)


def _discard(store: StorePort, run: str) -> None:
    discard(store, inbox_space(run), inbox.CANCEL)
