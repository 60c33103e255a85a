"""Tells from a few events which ranges of a history count, and which of its events are points.

The fold of the journal decides both. This says the same of a history that has no compacted and no unknown
event, by the kinds of its events alone, except for two: a rewind takes events away, and a settlement that
lets a call be made again is no point. The invariant, which a property test checks: for each history that
``kinds_tell_all``, the ranges hold the events that ``effective`` keeps, and the n-th event of a kind in
``POINTS`` in them is the point with the number n.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.model.event_fields import fields_of
from holdfast.model.events import COVERING, KINDS, Event, Kind
from holdfast.model.named_tuple import NamedTuple

POINTS: Final = frozenset({Kind.STEP_FINISHED, Kind.STEP_FAILED, Kind.STEP_SETTLED, Kind.CHECKPOINT})
"""The kinds of events that are points."""

ODD: Final = frozenset({Kind.RUN_REWOUND, Kind.STEP_SETTLED})
"""The kinds whose events have to be read: see ``standing_ranges``."""


class Range(NamedTuple):
    """Events behind one seq, up to and including another."""

    after_seq: int
    upto_seq: int


def kinds_tell_all(counts: Mapping[str, int], length: int) -> bool:
    """Whether so many events of each kind are all of a range, and none of them replaces or means more."""
    return sum(counts.values()) == length and counts.keys() <= KINDS - COVERING


def standing_ranges(head: int, odd: Iterable[Event]) -> list[Range]:
    """The events of a history up to ``head`` that count, in order, without settlements that are no points.

    ``odd`` are its events of the kinds in ``ODD``, in order.
    """
    ranges: list[Range] = []
    begin = 0
    for event in odd:
        fields = fields_of(event.body)
        if event.kind == Kind.RUN_REWOUND:
            ranges = upto([*ranges, Range(begin, event.seq - 1)], fields["to_seq"])
            begin = event.seq - 1
        elif fields["how"] == "retry":
            ranges = upto([*ranges, Range(begin, event.seq - 1)], event.seq)
            begin = event.seq
    return upto([*ranges, Range(begin, head)], head)


def upto(ranges: Iterable[Range], seq: int) -> list[Range]:
    """The parts of these ranges up to an event; none is empty."""
    cut = (Range(one.after_seq, min(one.upto_seq, seq)) for one in ranges)
    return [one for one in cut if one.after_seq < one.upto_seq]
