"""Records what earlier attempts could not record: that they crashed, and that a run is a fork.

The next holder of the run appends these events before its own, in the same append. So each crash is recorded
once, and a crash before that append leaves it to the next holder.
"""

from holdfast.core.journal.call_notes import noted_behind, noted_call
from holdfast.core.journal.fold import View
from holdfast.core.journal.view_parts import Attempt
from holdfast.core.text.times import clock_time
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.run.features import fork_event
from holdfast.model.event_fields import fields_of, mark_of
from holdfast.model.events import Kind
from holdfast.model.store_rows import Lease, RunRow
from holdfast.stores.port import StorePort


def catching_up(store: StorePort, row: RunRow, view: View) -> list[Draft]:
    """The events that the journal lacks: that the run is a fork, or that its last attempt crashed.

    ``row`` has the lease from before we took it: see ``lease.with_lease_of``.
    """
    forked = fork_event(store, row, view)
    if forked is not None:
        return [forked]
    if view.crashed_attempt is not None:
        return [crashed(store, row.run, view, view.crashed_attempt, row.lease)]
    return []


def crashed(store: StorePort, run: str, view: View, attempt: Attempt, before: Lease) -> Draft:
    """The event for a crashed attempt, with the last thing that is known of it."""
    # Calls that a handoff brought in doubt were not made by this attempt.
    open_calls = [
        call
        for call in view.open_calls()
        if call.fence >= attempt.event.fence or mark_of(call.body or b"") != "handed"
    ]
    begun = [(call.name, call.started_at) for call in open_calls]
    noted = noted_behind(noted_call(store.find_call_note(run)), view.head)
    if noted is not None:
        begun.append((noted.name, noted.began_at))
    if begun:
        names = ", ".join(f"{name!r} since {clock_time(at)}" for name, at in begun[-5:])
        last = f"in the middle of {names}"
    elif view.last is not None and (doing := view.doing_at(view.last)):
        last = f"{doing} at {clock_time(view.last.at)}"
    elif view.last is not None and view.last.kind == Kind.ATTEMPT_STARTED:
        last = f"right after it began at {clock_time(view.last.at)}"
    elif view.last is not None:
        last = f"after {view.last.kind} {view.last.name!r} at {clock_time(view.last.at)}"
    else:
        last = "before it recorded anything"
    owner = fields_of(attempt.event.body)["owner"]
    fields = {
        "attempt": attempt.number,
        "last": last,
        "last_seq": view.head,
        # Another process may have held the run since, and died before it could record anything.
        "last_beat_at": before.beat_at if before.owner == owner else attempt.event.at,
        "owner": owner,
        "proof": store.probe(owner),
    }
    if noted is not None:
        fields |= {"noted": noted.name, "noted_at": noted.began_at}
    return draft(Kind.ATTEMPT_CRASHED, "", "", fields)
