"""How long records are kept: per class of record, by age, count and total size."""

from typing import Final

from holdfast.limits import COMPACT_EVENTS_MIN, KEPT_CHECKPOINTS
from holdfast.model.named_tuple import NamedTuple


class Keep(NamedTuple):
    """Bounds for records of one class; records beyond any of them are deleted, oldest first.

    ``Keep()`` keeps everything, ``Keep(last=0)`` nothing that may go. ``size_mb`` is of the content as JSON.
    """

    last: int | None = None
    days: float | None = None
    size_mb: float | None = None


class Retention(NamedTuple):
    """What pruning deletes. The default bounds the size of a program that restores, however long it runs.

    ``reasoning`` are thoughts, decisions, discoveries and messages; ``checkpoints`` the states of superseded
    ones; ``refetchable`` the results of steps declared so; ``chunks`` the chunks of streamed answers that are
    recorded in full; ``finished`` complete runs. ``compact_events``: if more events than this are before the
    oldest kept state of a program that restores, their folded view replaces them; None for never.
    """

    reasoning: Keep = Keep()
    chunks: Keep = Keep(last=0)
    checkpoints: Keep = Keep(last=KEPT_CHECKPOINTS)
    refetchable: Keep = Keep()
    finished: Keep = Keep()
    compact_events: int | None = COMPACT_EVENTS_MIN


RETENTION: Final = Retention()
