"""How long what is recorded is kept: per class of record, by age, count and total size."""

from typing import Final, NamedTuple

from holdfast.limits import COMPACT_EVENTS_MIN, KEPT_CHECKPOINTS


class Keep(NamedTuple):
    """Bounds within which records of one class are kept; what lies beyond any of them goes, oldest first.

    ``Keep()`` keeps everything, ``Keep(last=0)`` nothing that may go. ``size_mb`` is of the content as JSON.
    """

    last: int | None = None
    days: float | None = None
    size_mb: float | None = None


class Retention(NamedTuple):
    """What goes first when a run is pruned. The default keeps a program that restores bounded, however long it runs.

    ``reasoning`` are thoughts, decisions, discoveries and things said; ``checkpoints`` the states of superseded ones;
    ``refetchable`` the results of steps declared so; ``chunks`` the pieces of streamed
    answers that are recorded whole; ``finished`` whole runs.
    ``compact_events``: when more than so many events lie before the oldest kept state of a program that restores, they
    are replaced by what they came to; None for never.
    """

    reasoning: Keep = Keep()
    chunks: Keep = Keep(last=0)
    checkpoints: Keep = Keep(last=KEPT_CHECKPOINTS)
    refetchable: Keep = Keep()
    finished: Keep = Keep()
    compact_events: int | None = COMPACT_EVENTS_MIN


RETENTION: Final = Retention()
