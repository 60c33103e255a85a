"""Handing over, sealing, accepting, promising, sending and receiving, killed before and after every port call on both sides.

Planted once in a copy, and caught at every place (HOLDFAST_CRASH_EVERY=1): the document in another append than the seal (a second
document); a message whose letter has a random id (received twice). At the usual pace, too: a message that is not consumed with its record.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.sampling import EVERY

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.testing.crash_matrix import Case, CrashMatrix

SELDOM = EVERY if EVERY == 1 else 36
"""The walks are long: each flow is struck in the middle of what it does, and everywhere by ``make crash``."""
HANDING = Path(__file__).parent / "programs" / "handing.py"


def kinds_of(store: holdfast.Store, run: str) -> Counter[tuple[str, str]]:
    return Counter((event.kind, event.name if event.kind == "mark" else "") for event in store.events(run))


def check_taken(store: holdfast.Store, case: Case) -> None:
    """Begun once with one document, each payment made once, the first one answered from the handoff."""
    lines = [json.loads(line) for line in (case.directory / "ledger").read_text().splitlines()]
    assert [line["amount"] for line in lines] == [5, 6]
    assert kinds_of(store, "taker")["mark", "handed over"] == 1
    given = [
        event
        for event in store.events("taker")
        if event.kind == "step.settled" and contents_of(event.body)["via"] == "handoff"
    ]
    assert len(given) == 1


def check_sealed(case: Case) -> None:
    kinds = kinds_of(case.store, "giver")
    assert (kinds["run.sealed", ""], kinds["mark", "handoff"], kinds["promise.made", ""]) == (1, 1, 1)
    assert case.store.events("giver")[-1].kind == "run.sealed"


def check_friend(case: Case) -> None:
    """Two messages and two words about one promise, each once; nothing is left in its inbox."""
    kinds = kinds_of(case.store, "friend")
    assert (kinds["message.received", ""], kinds["promise.told", ""]) == (2, 2)
    assert case.store._port.scan_records("inbox/friend", limit=10) == []
    ids = [
        contents_of(event.body)["id"]
        for event in case.store.events("friend")
        if event.kind == "message.received"
    ]
    assert len(set(ids)) == 2


def check_together(case: Case) -> None:
    check_sealed(case)
    check_taken(case.store, case)
    check_friend(case)
    assert {run.run for run in case.store.runs()} == {"friend", "giver", "taker"}


def check_apart(case: Case) -> None:
    check_sealed(case)
    other = holdfast.store(case.directory / "other.db")
    try:
        check_taken(other, case)
        assert other.get("taker").status == "finished"
        assert [run.run for run in other.runs()] == ["taker"]
    finally:
        other.close()


@pytest.mark.timeout(1200)  # at every place, it takes its time
@pytest.mark.parametrize(
    ("name", "check", "calls_min"),
    [("together", check_together, 100), ("apart", check_apart, 50), ("awaited", check_friend, 40)],
)
def test_killed_around_a_handoff(
    crash_matrix: CrashMatrix, name: str, check: Callable[[Case], None], calls_min: int
) -> None:
    """Killed anywhere, and again while it recovers: one document, one taker, each effect, message and promise once."""
    report = crash_matrix.walk(HANDING, name, check=check, start="fork", every=SELDOM, again_every=199)
    assert report.calls >= calls_min
    assert report.pairs >= 1
