"""Runs that wait, killed before and after every port call around a question, an answer, an approval and a sleep.

Planted once in a copy, and caught here: an answer recorded without consuming its letter (left in the inbox); a question
that is asked anew after each crash; the intent of an approved effect written before the answer.
"""

from collections import Counter
from pathlib import Path

import pytest
from tests.support.sampling import EVERY, OFTEN

from holdfast.testing.crash_matrix import Case, CrashMatrix

PEOPLE = Path(__file__).parent / "programs" / "people.py"


def check(case: Case) -> None:
    """Each question asked, answered and waited for once; what was approved paid once, and after that; nothing left behind."""
    events = case.store.events("agent")
    for kind in ("question.asked", "question.answered", "wait.started", "wait.ended"):
        counts = Counter(event.key for event in events if event.kind == kind)
        assert counts, kind
        assert set(counts.values()) == {1}, kind
    assert case.store._port.scan_records("inbox/agent", limit=10) == []
    intents = [event.seq for event in events if event.kind == "step.started"]
    if intents:
        assert len((case.directory / "ledger").read_text().splitlines()) == 1
        assert next(event.seq for event in events if event.kind == "question.answered") < intents[0]


@pytest.mark.parametrize(("name", "calls_min"), [("blocking", 50), ("awaiting", 50)])
def test_killed_around_questions_answers_and_sleeps(
    crash_matrix: CrashMatrix, name: str, calls_min: int
) -> None:
    """Killed anywhere, and again while it recovers: it comes back to the same questions and waits, and ends the same."""
    report = crash_matrix.walk(
        PEOPLE, name, check=check, start="fork", every=EVERY, again_every=199 if EVERY == 1 else 99
    )
    assert report.calls >= calls_min
    assert report.pairs >= (5 if EVERY == 1 else 2)


def test_killed_while_it_is_cancelled(crash_matrix: CrashMatrix) -> None:
    """Whoever comes next finds the letter: the run is cancelled, and that stands in its journal once."""

    def check_cancelled(case: Case) -> None:
        events = case.store.events("agent")
        assert [e.kind for e in events].count("run.cancelled") == 1
        assert case.store._port.scan_records("inbox/agent", limit=10) == []

    report = crash_matrix.walk(
        PEOPLE, "cancelled", check=check_cancelled, start="fork", every=OFTEN, again_every=61
    )
    assert report.calls >= 12
