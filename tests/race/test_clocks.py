"""Workers whose clocks differ by a minute: nobody living is taken over, nobody silent is waited for in vain, and never twice.

What decides is whether a beat moves while somebody watches, by the watcher's own monotonic clock; a wall clock only says
whether to begin watching. Planted once, and caught here: a takeover decided by the age of the beat alone (a clock that is
ahead takes a living holder's run); a beat from the future taken for a fresh one (a clock that is behind waits for a minute).
"""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.support.stores import over_shared_stores

if TYPE_CHECKING:
    from tests.race.conftest import Start

pytestmark = over_shared_stores

Ledger = Callable[[], list[str]]
MINUTE_S = 60


@pytest.mark.parametrize(("holder_s", "rival_s"), [(0, MINUTE_S), (0, -MINUTE_S), (MINUTE_S, -MINUTE_S)])
def test_a_living_holder_is_not_taken_over(
    start: "Start", impatient: str, ledger: Ledger, holder_s: int, rival_s: int
) -> None:
    """Whoever comes is told who holds the run, whatever the two clocks say of its beat."""
    holder = start("work", impatient, CLOCK_OFF_S=str(holder_s))
    holder.hear("entered")
    holder.hear("inside")
    rival = start("work", impatient, CLOCK_OFF_S=str(rival_s))
    assert f"process {holder.pid} " in rival.hear("refused")["owner"]
    assert rival.wait() == 0
    holder.tell("pay")
    holder.hear("paid")
    holder.hear("finished")
    assert ledger() == [str(holder.pid)]


def test_a_clock_that_is_behind_takes_a_silent_holders_run(start: "Start", impatient: str) -> None:
    """Its beats seem to come from the future: that they do not move is seen all the same, and at once."""
    holder = start("work", impatient, "pause")
    holder.hear("entered")
    holder.hear("paused")
    holder.stop()
    successor = start("work", impatient, "pause", CLOCK_OFF_S=str(-MINUTE_S))
    assert successor.hear("entered")["attempt"] == 2


def test_of_many_with_different_clocks_one_takes_a_silent_holders_run(
    start: "Start", impatient: str, ledger: Ledger
) -> None:
    """Once, though some think that the holder has been silent for a minute and others that it beat in the future."""
    holder = start("work", impatient, "pause", CLOCK_OFF_S=str(MINUTE_S // 2))
    holder.hear("entered")
    holder.hear("paused")
    holder.stop()
    rivals = [
        start("work", impatient, "pause", CLOCK_OFF_S=str(s)) for s in (-MINUTE_S, 0, MINUTE_S, -MINUTE_S)
    ]
    heard = {rival: rival.hear("entered", "refused")["told"] for rival in rivals}
    assert sorted(heard.values()) == ["entered", "refused", "refused", "refused"]
    (successor,) = [rival for rival, told in heard.items() if told == "entered"]
    successor.hear("paused")
    holder.signal(signal.SIGCONT)
    holder.tell("go")
    holder.hear("lease_lost")  # before it pays: that intent is waited for
    assert holder.wait() == 4
    successor.tell("go")
    successor.hear("inside")
    successor.tell("pay")
    successor.hear("paid")
    successor.hear("finished")
    assert ledger() == [str(successor.pid)]
