"""Decides when a worker may take a run again, and when no worker should try it any more."""

from typing import TYPE_CHECKING

from holdfast.model.event_fields import fields_of
from holdfast.model.store_rows import Status

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.core.journal.view_parts import Attempt


def due_after(status: str, until: float | None, now: float, *, is_drained: bool) -> float | None:
    """When a run is due again after an attempt ended like this; None if no worker may take it by itself.

    A run parked until a time is due then. A run whose worker was shut down is due at once. A run that a
    person interrupted is not due: the person meant it.
    """
    if status == Status.PARKED:
        return until
    return now if status in {Status.INTERRUPTED, Status.RUNNING} and is_drained else None


def waited_for_by(view: "View") -> str:
    """The run that submitted this one and waits for its end; empty if there is none."""
    return "" if view.started is None else str(fields_of(view.started.body).get("waited_for_by") or "")


def crashes_in_vain(view: "View") -> "list[Attempt]":
    """The latest attempts that crashed in a row and recorded no outcome, oldest first."""
    found: list[Attempt] = []
    for attempt in reversed(view.attempts):
        is_running = not found and attempt is view.attempts[-1] and attempt.how is None
        if is_running:  # it runs, or its crash is not recorded yet
            continue
        if attempt.how != "crashed" or attempt.event.seq < view.last_outcome_seq:
            break
        found.append(attempt)
    return found[::-1]


def is_suspect(view: "View", crashes_max: int) -> bool:
    """Whether the last attempt crashed and one more such crash would reach the limit."""
    # No event records the last crash yet. It counts as one, and the attempt that is about to begin as
    # another.
    last = view.attempts[-1] if view.attempts else None
    if last is None or last.how is not None or last.event.seq < view.last_outcome_seq:
        return False
    return len(crashes_in_vain(view)) + 2 >= crashes_max
