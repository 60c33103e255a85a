"""Where a program begins that continues a history: at its latest state, or at the top."""

from collections.abc import Sequence

from holdfast.core.journal.fold import View, fold
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple


class RestartPoint(NamedTuple):
    """The view of a history, the state that its program begins with, and the records that it has reached.

    Without a state it replays from the top, and ``cursor_seq`` is 0.
    """

    view: View
    state: Event | None
    cursor_seq: int
    unsaid: frozenset[int]


def restart_point(events: Sequence[Event]) -> RestartPoint:
    """Where the program begins. Whether it restores states is known from all of its attempts."""
    view = fold(events)
    if view.checkpoint is None or not has_restored(events, view):
        return RestartPoint(view, None, 0, frozenset())
    fields = fields_of(view.checkpoint.body)
    cursor = fields.get("upto_seq", view.checkpoint.seq)
    return RestartPoint(view, view.checkpoint, cursor, frozenset(fields.get("unsaid", ())))


def has_restored(events: Sequence[Event], view: View) -> bool:
    """Whether an attempt has asked for a state. Compaction keeps this of the latest attempt."""
    return view.restores or view.base > 0 or any(event.kind == Kind.RESTORED for event in events)
