"""Machines whose clocks are a minute apart share a store: who holds a run is decided by beats, not by what time it is.

Planted once in a copy, and caught here: silence judged by the newcomer's clock alone, without watching the beat.
"""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from tests.race.conftest import Start

pytestmark = pytest.mark.parametrize("kind", ["sqlite", "dynamodb"])

Ledger = Callable[[], list[str]]
AHEAD, BEHIND = ["env", "SKEW_S=60"], ["env", "SKEW_S=-60"]


def test_a_live_holder_is_left_alone_by_one_whose_clock_is_ahead(
    start: "Start", impatient: str, ledger: Ledger, store: holdfast.Store
) -> None:
    """To the newcomer the last beat is a minute old. It watches for the length of a lease, sees it move, and is refused."""
    holder = start("work", impatient)
    holder.hear("entered")
    holder.hear("inside")
    rival = start("work", impatient, prefix=AHEAD)
    assert f"process {holder.pid}" in rival.hear("refused")["owner"]
    assert rival.wait() == 0
    holder.tell("pay")
    holder.hear("paid")
    assert holder.hear("finished")["result"] == {"paid_by": holder.pid}
    assert holder.wait() == 0
    assert ledger() == [str(holder.pid)]
    assert [event.kind for event in store.events("run")].count("attempt.started") == 1


def test_a_silent_holder_is_taken_over_across_the_minute(
    start: "Start", impatient: str, ledger: Ledger, store: holdfast.Store
) -> None:
    """Stopped past its lease, taken over by one whose clock is ahead, continued; ended by one whose clock is right again."""
    holder = start("work", impatient)
    holder.hear("entered")
    holder.hear("inside")
    holder.stop()
    successor = start("work", impatient, "patient", prefix=AHEAD)
    assert successor.hear("entered")["attempt"] == 2
    successor.hear("in_doubt")
    assert successor.wait() == 3
    before = store.events("run")
    holder.signal(signal.SIGCONT)
    holder.tell("pay")
    holder.hear("paid")
    holder.hear("lease_lost")
    assert holder.wait() == 4
    assert store.events("run") == before, "a late write reached the journal"
    last = start("work", impatient)
    last.hear("entered")
    assert last.hear("finished")["result"] == {"paid_by": holder.pid}
    assert last.wait() == 0
    assert ledger() == [str(holder.pid)]


def test_a_killed_holder_is_noticed_whatever_its_clock_said(start: "Start", url: str, ledger: Ledger) -> None:
    """At once, and before it paid or after: that a process is dead is no matter of time."""
    holder = start("work", url, prefix=AHEAD)
    holder.hear("entered")
    holder.hear("inside")
    holder.signal(signal.SIGKILL)
    holder.wait()
    asked = start("work", url, prefix=BEHIND)
    assert asked.hear("entered")["attempt"] == 2
    asked.hear("in_doubt")
    assert asked.wait() == 3
    assert ledger() == []
