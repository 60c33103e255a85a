"""Forks, rewinds, moves, erasures and handoffs of a run with children, killed before and after every port call.

Planted, and caught here: a child that goes on though its parent was handed over.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.sampling import EVERY

import holdfast
from holdfast.testing.crash_matrix import Case, CrashMatrix

FAMILY = Path(__file__).parent / "programs" / "family.py"
SELDOM = EVERY if EVERY == 1 else 4 * EVERY
AGAIN = 199 if EVERY == 1 else None
"""The walks are long: ``make test`` strikes each at a few places, ``make crash`` everywhere, and its recoveries too."""


def paid(case: Case) -> Counter[str]:
    return Counter(json.loads(line)["whom"] for line in (case.directory / "ledger").read_text().splitlines())


def check(case: Case) -> None:
    """Each payment was made once; no run is held or half there."""
    assert paid(case) == {"first": 1, "deep": 1, "second": 1}
    check_runs(case)


def check_runs(case: Case) -> None:
    for info in case.store.runs():
        assert info.status not in {"running", "crashed", "importing"}, info


def check_forked(case: Case) -> None:
    """Both forks go on from an unfinished child: each makes the payment that it had not made."""
    assert paid(case) == {"first": 1, "deep": 1, "second": 2}
    check_runs(case)


def check_moved(case: Case) -> None:
    """The run and its children act in the other store only."""
    check(case)
    assert {info.status for info in case.store.runs()} == {"sealed"}
    other = holdfast.store(case.directory / "other.db")
    try:
        assert {info.run: info.status for info in other.runs()} == dict.fromkeys(
            ("talk", "talk/first", "talk/second", "talk/second/deep"), "finished"
        )
    finally:
        other.close()


def check_erased(case: Case) -> None:
    """Nothing is left of the run or its children."""
    check(case)
    assert [info.run for info in case.store.runs()] == ["paid"]


@pytest.mark.timeout(1200)  # at every place, it takes its time
@pytest.mark.parametrize(
    ("what", "judge"),
    [
        ("fork", check_forked),
        ("rewind", check),
        ("move", check_moved),
        ("erase", check_erased),
        ("handoff", check),
    ],
    ids=["fork", "rewind", "move", "erase", "handoff"],
)
def test_killed_around_a_family(crash_matrix: CrashMatrix, what: str, judge: Callable[[Case], None]) -> None:
    """Started again, it ends as if nothing had happened: no child's effect is made twice, nothing is half moved."""
    report = crash_matrix.walk(FAMILY, what, check=judge, start="fork", every=SELDOM, again_every=AGAIN)
    assert report.calls >= 50
