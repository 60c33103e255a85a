"""What the plan of a prune costs, and by which policy it is made."""

from typing import Any

import pytest
from tests.unit.journals import RUN, Journal

from holdfast.core.journal.fold import fold
from holdfast.core.prune.declared_policy import declared_policy, policy_for, recorded_policy
from holdfast.core.prune.prune_plan import plan
from holdfast.core.prune.roots import Lineage
from holdfast.model.events import Event, Kind
from holdfast.model.retention import RETENTION, Keep, Retention


class Counted(int):
    """A number that counts how often it is compared for equality."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_chunks_before_a_pin_are_looked_at_once_each() -> None:
    """A pin in the middle of a streamed answer keeps its chunks; the work grows with their number, not its square.

    With a list of the kept ones, 400 chunks took 158,807 comparisons.
    """
    journal = Journal().start()
    key = journal.ask_model()
    for n in range(400):
        journal.chunk(key, n, text="x")
    pinned = journal.events[-1].seq
    journal.add(Kind.STEP_FINISHED, "think", key, ms=5.0, value="x" * 400)
    events = [Event(Counted(event[0]), *event[1:]) for event in journal.events]
    Counted.compared = 0
    found = plan(
        Lineage(RUN, 0, (), events, pins={pinned: ("pin", "r@1")}), RETENTION, journal.at, lambda _: b""
    )
    assert not found.hollowings
    assert Counted.compared < 20 * len(events)


@pytest.mark.parametrize(
    "policy",
    [
        RETENTION,
        Retention(checkpoints=Keep(last=3), compact_events=None),
        Retention(reasoning=Keep(days=1.5, size_mb=2), chunks=Keep()),
    ],
)
def test_a_declared_policy_is_recorded_and_read(policy: Retention) -> None:
    """By the last attempt; a bound that is given replaces that one, and a whole policy all of them."""
    view = fold(attempted(policy))
    assert declared_policy(view) == policy
    assert policy_for(view, {"reasoning": Keep(last=1)}) == policy._replace(reasoning=Keep(last=1))
    assert policy_for(view, Retention()) == Retention()


def test_a_program_that_declares_none_keeps_everything() -> None:
    """``retention=None``: no class has a bound, and nothing is compacted."""
    found = declared_policy(fold(attempted(None)))
    assert {*found[:5]} == {Keep()}
    assert found.compact_events is None


def attempted(policy: Any) -> list[Event]:
    journal = Journal()
    journal.add(Kind.RUN_STARTED, goal=None, agent=None, workspace=None, inputs=None)
    body = {"number": 1, "owner": "host:1", "fence": 1, "retention": recorded_policy(policy)}
    journal.add(Kind.ATTEMPT_STARTED, **body)
    return journal.events
