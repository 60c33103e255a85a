"""When a worker is to take a run next, and when no worker is to try it any more."""

from typing import TYPE_CHECKING

from holdfast.model.event_fields import fields_of
from holdfast.model.store_rows import Status

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.core.journal.view_parts import Attempt


def due_after(status: str, until: float | None, now: float, *, is_drained: bool) -> float | None:
    """When a run whose attempt ended like this is due again; None where that is for somebody else to say.

    Parked for a time, it is due then. Interrupted because its worker went away, it is due at once; a person who
    interrupts a program means it.
    """
    if status == Status.PARKED:
        return until
    return now if status in {Status.INTERRUPTED, Status.RUNNING} and is_drained else None


def waited_for_by(view: "View") -> str:
    """The run that has submitted this one and waits for its end; empty where none does."""
    return "" if view.started is None else str(fields_of(view.started.body).get("waited_for_by") or "")


def crashes_in_vain(view: "View") -> "list[Attempt]":
    """The attempts at the end that crashed and had got nowhere: no outcome was recorded since the first of them began."""
    found: list[Attempt] = []
    for attempt in reversed(view.attempts):
        is_running = not found and attempt is view.attempts[-1] and attempt.how is None
        if is_running:
            continue
        if attempt.how != "crashed" or attempt.event.seq < view.last_outcome_seq:
            break
        found.append(attempt)
    return found[::-1]


def is_suspect(view: "View", crashes_max: int) -> bool:
    """Whether its last attempt crashed, which nobody has recorded yet, and one more crash like that is one too many."""
    last = view.attempts[-1] if view.attempts else None
    if last is None or last.how is not None or last.event.seq < view.last_outcome_seq:
        return False
    return len(crashes_in_vain(view)) + 2 >= crashes_max
