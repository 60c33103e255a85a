"""What the kinds of events tell of a history is what its fold says: which events count, and the number of each point.

Planted, and caught here: a rewind that took only the last range away; a settlement for another try that was counted; a range
that began one event late behind a rewind; unknown and compacted events that were taken for nothing.
"""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.journal.fold import View
from holdfast.core.journal.lineage import effective
from holdfast.core.lineage.points import Place, find_event
from holdfast.core.lineage.standing_ranges import ODD, POINTS, kinds_tell_all, standing_ranges
from holdfast.model.event_fields import write
from holdfast.model.events import Event, Kind

ENDS = (Kind.STEP_FINISHED, Kind.STEP_FAILED, "retry", "done", "failed")


def event(seq: int, kind: str, key: str = "", body: bytes = b"{}\n") -> Event:
    return Event(seq, float(seq), kind, "s", key, 1, body, 0)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Steps that end in every way, checkpoints, marks, attempts, and rewinds to anywhere, also behind other rewinds."""
    events: list[Event] = []
    for number in range(draw(st.integers(1, 14))):
        seq, what = (
            len(events) + 1,
            draw(st.sampled_from(["step", "checkpoint", "mark", "attempt", "rewind"])),
        )
        if what == "step":
            events.append(
                event(seq, Kind.STEP_STARTED, f"s.{number}", write({"effect": "read", "in": "", "after": ""}))
            )
            end = draw(st.sampled_from(ENDS))
            is_settled = end in {"retry", "done", "failed"}
            body = write({"how": end}) if is_settled else write({"ms": 1.0})
            events.append(event(seq + 1, Kind.STEP_SETTLED if is_settled else end, f"s.{number}", body))
        elif what == "checkpoint":
            events.append(
                event(seq, Kind.CHECKPOINT, f"c.{number}", write({"state_bytes": 1}, {"state": None}))
            )
        elif what == "mark":
            events.append(event(seq, Kind.MARK, f"m.{number}"))
        elif what == "attempt":
            events.append(
                event(seq, Kind.ATTEMPT_STARTED, "", write({"number": number, "owner": "o", "fence": 1}))
            )
        else:
            events.append(event(seq, Kind.RUN_REWOUND, "", write({"to_seq": draw(st.integers(0, seq - 1))})))
    return events


def is_sound(events: Sequence[Event]) -> bool:
    """A rewind into the middle of a step leaves its intent, which no later outcome has: all histories fold."""
    View().add_all(effective(events))
    return True


@given(histories())
def test_ranges_hold_the_events_that_count(events: list[Event]) -> None:
    """And the points in them have the numbers that the fold gives."""
    assert is_sound(events)
    ranges = standing_ranges(len(events), [one for one in events if one.kind in ODD])
    held = [one for one in events if any(first < one.seq <= last for first, last in ranges)]
    no_points = [one for one in effective(events) if one.kind == Kind.STEP_SETTLED and b'"retry"' in one.body]
    assert held == [one for one in effective(events) if one not in no_points]
    assert all(first < last for first, last in ranges)
    points = [one for one in held if one.kind in POINTS]
    standing = effective(events)
    for number in range(1, len(events) + 2):
        found = points[number - 1] if number <= len(points) else None
        assert find_event(standing, Place("r", point=number)) == found


def test_a_range_is_told_only_by_all_of_its_events() -> None:
    """A gap, an event of a newer Holdfast and one that replaces others are not told by their kinds."""
    assert kinds_tell_all({Kind.MARK: 2, Kind.STEP_STARTED: 1}, 3)
    assert not kinds_tell_all({Kind.MARK: 2}, 3)
    for kind in ("mark.of.tomorrow", "marl", Kind.COMPACTED, Kind.PRUNED):
        assert not kinds_tell_all({Kind.MARK: 2, kind: 1}, 3)
