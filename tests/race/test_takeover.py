"""A holder falls silent, another takes the run over, and then the first one wakes up.

Nobody writes late to the journal; and what the late one did to the world is not lost: it reaches the successor through
the inbox. The tools here wait for a word, so that each process stands exactly where the test wants it.

Planted once in a copy, and caught here: the fence check left out of the append; the late outcome not posted; "not done"
taken for an answer while the process that started the effect may still be alive.
"""

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.stores import over_shared_stores

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

if TYPE_CHECKING:
    from tests.race.conftest import Start, Worker

pytestmark = over_shared_stores

Ledger = Callable[[], list[str]]


def stop_inside_payment(start: "Start", url: str) -> "Worker":
    """A worker that was stopped after it began to pay and before the effect."""
    holder = start("work", url)
    holder.hear("entered")
    holder.hear("inside")
    holder.stop()
    return holder


def wake_and_pay(holder: "Worker") -> dict[str, Any]:
    """Let a stopped worker go on: it pays, late, and is told that the run is no longer its own."""
    holder.signal(signal.SIGCONT)
    holder.tell("pay")
    holder.hear("paid")
    lost = holder.hear("lease_lost")
    assert holder.wait() == 4
    return lost


def written_by(events: list[Event], fence: int) -> list[str]:
    return [event.kind for event in events if event.fence == fence]


def settled(events: list[Event]) -> list[dict[str, Any]]:
    return [contents_of(event.body) for event in events if event.kind == "step.settled"]


@pytest.mark.parametrize("options", [(), ("verified",)])
def test_late_outcome_reaches_the_next_resume(
    start: "Start", impatient: str, ledger: Ledger, store: holdfast.Store, options: tuple[str, ...]
) -> None:
    """SIGSTOP past the lease: another takes over and stops in doubt, also if its verifier says "not done".

    The process that was stopped is not dead and may still act: "not done" permits nothing then. It wakes, pays, and
    its record is refused; the outcome lies in the inbox. The next resume settles the step by it without paying again.
    """
    holder = stop_inside_payment(start, impatient)
    successor = start("work", impatient, "patient", *options)
    assert successor.hear("entered")["attempt"] == 2
    doubt = successor.hear("in_doubt")
    assert successor.wait() == 3
    assert doubt["step"] == "charge"
    assert ("may still be alive" in doubt["reason"]) == bool(options)
    before = store.events("run")
    lost = wake_and_pay(holder)
    assert lost["fence_now"] == lost["fence"] + 1
    assert store.events("run") == before, "a late write reached the journal"
    assert [d.pending for d in store.doubts("run")] == ["done"]

    last = start("work", impatient, *options)
    last.hear("entered")
    assert last.hear("finished")["result"] == {"paid_by": holder.pid}
    assert last.wait() == 0
    assert ledger() == [str(holder.pid)]
    (settlement,) = settled(store.events("run"))
    assert (settlement["how"], settlement["via"]) == ("done", "late")
    assert store.doubts("run") == []


def test_late_outcome_reaches_a_live_successor(
    start: "Start", impatient: str, ledger: Ledger, store: holdfast.Store
) -> None:
    """The letter may also come while the successor works: it looks into the inbox when it comes to the step."""
    holder = stop_inside_payment(start, impatient)
    successor = start("work", impatient, "patient", "pause")
    successor.hear("entered")
    successor.hear("paused")
    wake_and_pay(holder)
    successor.tell("go")
    assert successor.hear("finished")["result"] == {"paid_by": holder.pid}
    assert successor.wait() == 0
    assert ledger() == [str(holder.pid)]


def test_late_write_is_refused_before_the_successor_writes(
    start: "Start", url: str, ledger: Ledger, store: holdfast.Store
) -> None:
    """Taking the lease is enough: a late write is refused though the journal's head is still where it was.

    Planted: the fence check left out of the guarded statement. With the head unmoved nothing else refuses the late
    write; this test catches it.
    """
    holder = stop_inside_payment(start, url)
    port = open_store(url)
    row = port.find_run("run")
    assert row is not None
    grant = port.acquire("run", at=time.time(), lease_s=30.0, over=row.lease)
    assert grant.granted
    before = store.events("run")
    lost = wake_and_pay(holder)
    assert (lost["fence"], lost["fence_now"]) == (row.lease.fence, grant.lease.fence)
    assert store.events("run") == before, "a late write reached the journal"
    assert port.release("run", fence=grant.lease.fence)

    last = start("work", url)
    assert last.hear("entered")["attempt"] == 2
    assert last.hear("finished")["result"] == {"paid_by": holder.pid}
    assert ledger() == [str(holder.pid)]


def test_a_read_that_is_made_late_is_not_recorded(
    start: "Start", impatient: str, store: holdfast.Store
) -> None:
    """A holder that was stopped past its lease and wakes between two steps: nothing of the next one is written.

    Its function may have run, since a store may send a read's intent ahead; a read may be made by anybody.
    """
    holder = start("read_late", impatient)
    holder.hear("paused")
    holder.stop()
    successor = start("work", impatient, "patient", "pause")
    successor.hear("entered")
    successor.hear("paused")
    before = store.events("run")
    holder.signal(signal.SIGCONT)
    holder.tell("go")
    if holder.hear("inside", "lease_lost")["told"] == "inside":
        holder.tell("go")
        holder.hear("lease_lost")
    assert holder.wait() == 4
    assert store.events("run") == before, "a late write reached the journal"
    successor.tell("go")
    successor.hear("inside")
    successor.tell("pay")
    successor.hear("paid")
    successor.hear("finished")
    assert written_by(store.events("run"), before[0].fence)[-1] == "step.finished"
    seqs = [event.seq for event in store.events("run")]  # read once: its holder is about to leave
    assert seqs == list(range(1, len(seqs) + 1))


def test_silent_but_beating_again(start: "Start", impatient: str, store: holdfast.Store) -> None:
    """A holder that wakes before it is taken over keeps its run: whoever watched it is refused."""
    holder = stop_inside_payment(start, impatient)
    beat_at = store.get("run").lease.beat_at
    deadline = time.monotonic() + 60
    while time.time() - beat_at < 1.2:  # silent for longer than its lease: a newcomer would begin to watch it
        assert time.monotonic() < deadline
        time.sleep(0.01)
    holder.signal(signal.SIGCONT)
    while store.get("run").lease.beat_at == beat_at:
        assert time.monotonic() < deadline, "it never beat again"
        time.sleep(0.01)
    rival = start("work", impatient)
    assert f"process {holder.pid}" in rival.hear("refused")["owner"]
    holder.tell("pay")
    holder.hear("paid")
    holder.hear("finished")
    assert holder.wait() == 0


def test_finished_while_somebody_came_for_it(start: "Start", url: str, store: holdfast.Store) -> None:
    """A run that its holder finishes just before a newcomer gets the lease is replayed, and not opened again."""
    holder = start("work", url)
    holder.hear("entered")
    holder.hear("inside")

    class Late(Relay):
        """Lets the holder finish between the newcomer's first look and its grasp for the lease."""

        def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            if verb.__name__ == "acquire" and holder.process.poll() is None:
                holder.tell("pay")
                holder.hear("paid")
                holder.hear("finished")
                assert holder.wait() == 0
            return super().pass_on(verb, *args, **kwargs)

    with holdfast.run("run", store=holdfast.Store(Late(open_store(url)))) as run:
        assert run.status == "finished"
        assert run.result == {"paid_by": holder.pid}
        with pytest.raises(holdfast.RunFinished):
            run.step("more", lambda: 1)
    assert [e.kind for e in store.events("run")].count("run.finished") == 1
    assert store.get("run").lease.owner == ""
