"""When a run is due again after an attempt, and which crashes count against it."""

import pytest

from holdfast.core.journal.fold import View, fold
from holdfast.core.queue.queue import crashes_in_vain, due_after, is_suspect, waited_for_by
from holdfast.model.events import Event, Kind


@pytest.mark.parametrize(
    ("status", "until", "drained", "due_at"),
    [
        ("parked", 50.0, False, 50.0),
        ("parked", None, False, None),
        ("parked", None, True, None),
        ("interrupted", None, True, 9.0),
        ("interrupted", None, False, None),
        ("failed", None, True, None),
        ("in_doubt", None, True, None),
        ("finished", None, True, None),
        ("cancelled", 50.0, True, None),
    ],
)
def test_when_it_is_due_again(status: str, until: float | None, drained: bool, due_at: float | None) -> None:
    """At the time that it waits for, at once if its worker went away, and else when somebody says so."""
    assert due_after(status, until, 9.0, is_drained=drained) == due_at


def view_of(*kinds: str) -> View:
    """A journal of these events; ``attempt.ended`` was an ordinary failure."""
    bodies = {
        Kind.RUN_STARTED: b'{"waited_for_by":"boss"}',
        Kind.ATTEMPT_STARTED: b'{"owner":"1@h","number":1}',
        Kind.ATTEMPT_ENDED: b'{"how":"failed","status":"failed"}',
        Kind.STEP_FINISHED: b'{"value":1}',
        Kind.STEP_STARTED: b'{"effect":"read"}',
    }
    events = [
        Event(seq, float(seq), kind, "s", f"k{seq // 100}", 1, bodies.get(kind, b"{}"), 0)
        for seq, kind in enumerate(kinds, 1)
    ]
    return fold(events)


BEGIN, CRASH = Kind.ATTEMPT_STARTED, Kind.ATTEMPT_CRASHED


def test_crashes_count_until_something_was_recorded() -> None:
    """An attempt that got on before it crashed does not count, nor does what lies before it."""
    start, done = Kind.STEP_STARTED, Kind.STEP_FINISHED
    view = view_of(
        Kind.RUN_STARTED, BEGIN, CRASH, BEGIN, start, done, CRASH, BEGIN, CRASH, BEGIN, CRASH, BEGIN
    )
    assert [attempt.number for attempt in crashes_in_vain(view)] == [3, 4]


def test_an_attempt_that_ended_by_itself_ends_the_count() -> None:
    """Also the one that was parked because of such crashes: whoever lets it go on begins anew."""
    view = view_of(Kind.RUN_STARTED, BEGIN, CRASH, BEGIN, Kind.ATTEMPT_ENDED, BEGIN, CRASH, BEGIN)
    assert [attempt.number for attempt in crashes_in_vain(view)] == [3]
    assert crashes_in_vain(view_of(Kind.RUN_STARTED, BEGIN)) == []


def test_whose_next_crash_is_one_too_many() -> None:
    """A run whose last attempt nobody saw end, with so many vain ones before it; not one that got on in it, or ended."""
    crashed = view_of(Kind.RUN_STARTED, BEGIN, CRASH, BEGIN)
    assert [is_suspect(crashed, limit) for limit in (2, 3, 4)] == [True, True, False]
    got_on = view_of(Kind.RUN_STARTED, BEGIN, CRASH, BEGIN, Kind.STEP_STARTED, Kind.STEP_FINISHED)
    assert not is_suspect(got_on, 2)
    assert not is_suspect(view_of(Kind.RUN_STARTED, BEGIN, CRASH, BEGIN, Kind.ATTEMPT_ENDED), 2)
    assert not is_suspect(View(), 2)


def test_a_child_knows_who_waits_for_it() -> None:
    """From what it was started with; a run of nobody's knows of nobody."""
    assert waited_for_by(view_of(Kind.RUN_STARTED)) == "boss"
    assert waited_for_by(View()) == ""
