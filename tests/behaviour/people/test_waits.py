"""Durable time: sleeps that a restart does not lengthen, a wall clock that jumps, deadlines of steps.

Planted once, and caught here: what is left of a sleep told by the wall clock in the process that began it; a clock set
back that makes a sleep longer; a second ``wait.started`` after a restart; a deadline computed anew after a crash.
"""

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import holdfast
from holdfast.core.people.wait_fold import WAITS
from holdfast.engine.run.store_session import session_of
from holdfast.model.event_fields import contents_of
from holdfast.stores.url import open_store
from holdfast.testing.store_rules.builders import delete_run

if TYPE_CHECKING:
    from tests.behaviour.conftest import Play, SetClock


def kinds(url: str) -> list[str]:
    return [e.kind for e in holdfast.store(url).events("r") if e.kind.startswith("wait")]


def test_a_sleep_lasts_its_seconds_once(play: "Play", clock: "SetClock", url: str) -> None:
    """It takes its time in the first run, and none in a replay."""

    async def body(run: Any) -> float:
        await run.sleep(60)
        return clock.passed

    async def stops(run: Any) -> None:
        await body(run)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(stops)
    assert clock.passed == pytest.approx(60)
    assert play(body) == pytest.approx(60)
    assert kinds(url) == ["wait.started", "wait.ended"]


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_jump_of_the_wall_clock_does_not_change_a_sleep(
    play: "Play", clock: "SetClock", seconds: float
) -> None:
    """In one process the monotonic clock counts, whichever way the other one is set."""

    async def body(run: Any) -> None:
        await run.sleep(10)

    clock.on_nap = lambda: clock.jump(seconds)
    play(body)
    assert clock.passed == pytest.approx(10)


@pytest.mark.parametrize(("away_s", "left_s"), [(0, 60), (45, 15), (600, 0), (-600, 60)])
def test_after_a_restart_what_is_left_is_told_by_the_wall_clock(
    play: "Play", clock: "SetClock", url: str, away_s: float, left_s: float
) -> None:
    """Never less than nothing, and never more than the whole: also where the clock was set back meanwhile."""

    async def body(run: Any) -> None:
        await run.sleep(60)

    clock.on_nap = die
    with pytest.raises(Killed):
        play(body)
    clock.on_nap = None
    clock.jump(away_s)
    began = clock.passed
    play(body)
    assert clock.passed - began == pytest.approx(left_s)
    assert kinds(url) == ["wait.started", "wait.ended"]


def test_sleep_until_is_about_the_wall_clock(play: "Play", clock: "SetClock") -> None:
    """A jump forward ends it, a jump back makes it longer; it looks up every few seconds."""
    when = clock.wall() + 100

    async def body(run: Any) -> None:
        await run.sleep_until(datetime.fromtimestamp(when, UTC))

    jumps = iter([50.0, 0.0, -20.0])
    clock.on_nap = lambda: clock.jump(next(jumps, 0.0))
    play(body)
    assert clock.wall() == pytest.approx(when)
    assert clock.passed == pytest.approx(70)
    assert max(clock.naps) <= 2.0


def test_a_time_computed_anew_is_the_first_one(play: "Play", clock: "SetClock") -> None:
    """A program that says ``now + 60`` each time it is started waits until the first such time."""

    async def body(run: Any) -> None:
        await run.sleep_until(clock.wall() + 60, wait_s=0)

    with pytest.raises(holdfast.Sleeping):
        play(body)
    clock.jump(59)
    with pytest.raises(holdfast.Sleeping):
        play(body)
    clock.jump(2)
    play(body)


def test_with_wait_s_the_run_parks(play: "Play", clock: "SetClock", url: str) -> None:
    """More than that left, it does not wait at all: Sleeping says until when, and the status is parked."""

    async def body(run: Any) -> str:
        await run.sleep(3600, wait_s=30)
        return "awake"

    until = clock.wall() + 3600
    for _ in range(2):
        with pytest.raises(holdfast.Sleeping) as stop:
            play(body)
        assert stop.value.until == pytest.approx(until)
        assert clock.passed == 0
        assert holdfast.store(url).get("r").status == "parked"
        assert [wait.until for wait in WAITS.of(holdfast.store(url).view("r")).open.values()] == [
            pytest.approx(until)
        ]
    clock.jump(3580)
    assert play(body) == "awake"
    assert clock.passed == pytest.approx(20)
    assert not WAITS.of(holdfast.store(url).view("r")).open


def test_a_parked_sleep_that_a_clock_began_which_was_ahead(play: "Play", clock: "SetClock", url: str) -> None:
    """Whoever takes the run up by a right clock parks it for its own length, and then it is over.

    Seen before (``make soak``): it was parked until the time of the first clock, in each attempt, for an hour.
    """

    async def body(run: Any) -> str:
        await run.sleep(5, wait_s=0)
        return "awake"

    with pytest.raises(holdfast.Sleeping):
        play(body)
    clock.jump(-3_600)
    for _ in range(2):
        with pytest.raises(holdfast.Sleeping) as stop:
            play(body)
        assert stop.value.until == pytest.approx(clock.wall() + 5)
        assert [one.until for one in WAITS.of(holdfast.store(url).view("r")).open.values()] == [
            pytest.approx(clock.wall() + 5)
        ]
    clock.jump(5)
    assert play(body) == "awake"
    assert kinds(url) == ["wait.started", "wait.started", "wait.ended"]


@pytest.mark.parametrize(("away_s", "waits_s"), [(0.0, 60.0), (45.0, 15.0), (600.0, 0.0), (-3_600.0, 60.0)])
def test_an_effect_gets_settle_s_and_no_more(
    url: str, clock: "SetClock", away_s: float, waits_s: float
) -> None:
    """After a restart the wall clock says what is left; one that was set back makes it never longer.

    Seen before (``make soak``): a worker by a right clock held the run for an hour, deaf to all that came.
    """

    @holdfast.tool(verify=lambda: holdfast.NotDone("not there"), settle_s=60, ignore=["is_well"])
    def pay() -> str:
        if not is_well:
            die()
        return "paid"

    def attempt() -> Any:
        with holdfast.run("r", store=url):
            return pay()

    is_well = False
    with pytest.raises(Killed):
        attempt()
    is_well = True
    clock.jump(away_s)
    assert attempt() == "paid"
    assert clock.passed == pytest.approx(waits_s)


def test_each_of_several_sleeps_side_by_side_has_its_own_record(url: str, clock: "SetClock") -> None:
    """Sleeps of other lengths are other calls, in whichever order their tasks come."""
    import asyncio

    async def twice(*lengths: float) -> None:
        async with holdfast.run("r", store=url) as run:
            await asyncio.gather(*(run.sleep(length) for length in lengths))
            raise KeyboardInterrupt

    for lengths in ((1, 5), (5, 1)):
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(twice(*lengths))
    assert kinds(url).count("wait.started") == 2


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf")])
def test_a_sleep_that_cannot_be_is_refused(url: str, bad: float) -> None:
    """Nothing is recorded of it."""
    with holdfast.run("r", store=url) as run:
        with pytest.raises(holdfast.Misuse):
            run.sleep(bad)
        with pytest.raises(holdfast.Misuse, match="time zone"):
            run.sleep_until(datetime(2026, 1, 1))
    assert kinds(url) == []


def test_inside_a_once_effect_nobody_waits(url: str) -> None:
    """Parked there, nobody would know whether the effect happened."""
    with holdfast.run("r", store=url) as run:

        def pay() -> None:
            with pytest.raises(holdfast.Misuse, match="leaf"):
                run.sleep(1)
            with pytest.raises(holdfast.Misuse, match="leaf"):
                run.ask("May I?")

        run.once("pay", pay)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_letter_wakes_it_at_once(url: str, is_async: bool) -> None:
    """Real hands and a real clock: cancelled from another thread, a sleep of an hour ends now."""
    import asyncio

    def cancel() -> None:
        store = holdfast.store(url)
        deadline = time.monotonic() + 30
        while not store.runs() or not WAITS.of(store.view("r")).open:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        store.cancel("r", by="ada")

    def blocking() -> None:
        with holdfast.run("r", store=url) as run:
            run.sleep(3600)

    async def awaiting() -> None:
        async with holdfast.run("r", store=url) as run:
            await run.sleep(3600)

    thread = threading.Thread(target=cancel)
    thread.start()
    began = time.monotonic()
    with pytest.raises(holdfast.Cancelled):
        if is_async:
            asyncio.run(awaiting())
        else:
            blocking()
    thread.join()
    assert time.monotonic() - began < 600


@pytest.mark.slow
def test_many_tasks_wait_on_one_thread(url: str) -> None:
    """However many runs sleep in one loop: one inbox wakeup, and each wakes when its time has come."""
    import asyncio

    async def one(number: int) -> None:
        async with holdfast.run(f"r{number}", store=url) as run:
            await run.sleep(0.3)

    async def all_of_them() -> int:
        tasks = [asyncio.create_task(one(number)) for number in range(20)]
        most = 0
        while not all(task.done() for task in tasks):
            most = max(most, sum(t.name == "holdfast-doorbell" for t in threading.enumerate()))
            await asyncio.sleep(0.02)
        await asyncio.gather(*tasks)
        return most

    assert asyncio.run(all_of_them()) == 1


# -- deadlines -------------------------------------------------------------------------------------------------------


def test_no_try_begins_after_the_deadline(play: "Play", clock: "SetClock", url: str) -> None:
    """A step whose deadline has passed is not called; the failure is recorded, and the same in a replay."""
    calls: list[int] = []
    deadline = clock.wall() + 10

    async def body(run: Any) -> str:
        try:
            await run.options(deadline=deadline).step("late", calls.append, 1)
        except holdfast.DeadlinePassed as late:
            return str(late)
        return "in time"

    async def twice(run: Any) -> tuple[str, str]:
        clock.jump(11)
        first = await body(run)
        clock.jump(-11)  # a clock set back does not change what was recorded
        return first, ""

    first, _ = play(twice)
    assert "did not end by its deadline" in first
    assert play(body) == first
    assert calls == []
    assert [e.kind for e in holdfast.store(url).events("r")][2:4] == ["step.started", "step.failed"]


def test_an_effect_that_is_too_late_is_not_in_doubt(
    play: "Play", clock: "SetClock", url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intent and failure are one append: there is no moment in which it could have happened."""
    port = holdfast.store(url)._port
    batches: list[list[str]] = []
    append = port.append

    def spied(items: Any) -> Any:
        batches.extend([event.kind for event in item.events] for item in items)
        return append(items)

    monkeypatch.setattr(port, "append", spied)

    async def body(run: Any) -> None:
        await run.options(deadline=clock.wall() - 1).once("pay", lambda: 1)

    with pytest.raises(holdfast.DeadlinePassed):
        play(body)
    assert ["step.started", "step.failed"] in batches
    assert holdfast.store(url).doubts("r") == []
    assert holdfast.store(url).get("r").status == "failed"


def test_retries_end_with_the_deadline(url: str, clock: "SetClock") -> None:
    """Tries stop there, however many are left."""
    calls: list[float] = []

    def fail() -> None:
        calls.append(clock.wall())
        clock.sleep(3)
        raise ValueError("again")

    deadline = clock.wall() + 10
    with pytest.raises(holdfast.DeadlinePassed), holdfast.run("r", store=url) as run:
        run.options(deadline=deadline, retries=50, key="fail").step("fail", fail)
    assert len(calls) == 3
    assert max(calls) < deadline


@pytest.mark.slow
def test_a_try_ends_at_the_deadline(play: "Play", url: str) -> None:
    """A step that runs is out of time when the deadline comes, as with a timeout."""

    def has_failed() -> bool:
        return any(event.kind == "step.failed" for event in holdfast.store(url).events("r"))

    def slow() -> None:
        # The thread is not stopped, and an event loop waits for it at its end.
        give_up = time.monotonic() + 60
        while not has_failed() and time.monotonic() < give_up:
            time.sleep(0.02)

    async def body(run: Any) -> None:
        await run.options(deadline=time.time() + 1, timeout_s=60, key="slow").step("slow", slow)

    with pytest.raises(holdfast.DeadlinePassed):
        play(body)
    events = holdfast.store(url).events("r")
    assert contents_of(next(e for e in events if e.kind == "step.failed").body)["error"]["type"].endswith(
        "DeadlinePassed"
    )


def test_a_restart_does_not_move_the_deadline(url: str, clock: "SetClock") -> None:
    """A step cut off by a crash keeps the deadline that it was begun with, whatever the program says now."""

    def attempt() -> str:
        with holdfast.run("r", store=url) as run:
            try:
                run.options(deadline=clock.wall() + 10).step("work", die)
            except holdfast.DeadlinePassed:
                return "late"
        raise AssertionError("it was in time")

    with pytest.raises(Killed):
        attempt()
    clock.jump(30)
    assert attempt() == "late"


class Killed(BaseException):
    """What a program cannot go past."""


def die() -> None:
    raise Killed


def erase_behind_its_back(url: str) -> None:
    """As another process does whose watch of this holder saw no beat."""
    port = open_store(url)
    row = port.find_run("r")
    if row is not None:
        grant = port.acquire("r", at=0.0, lease_s=60, over=row.lease)
        assert grant.granted
        assert delete_run(port, "r", fence=grant.lease.fence, revision=row.revision)


def test_a_wait_ends_when_its_run_was_erased(url: str, clock: "SetClock") -> None:
    """The holder was silent, and another process erased the run. Seen before: it waited on, for good."""
    clock.on_nap = lambda: erase_behind_its_back(url)
    with pytest.raises(holdfast.LeaseLost), holdfast.run("r", store=url) as run:
        run.sleep(1_000)
    assert clock.passed < 100


def test_a_beat_notices_that_its_run_was_erased(url: str) -> None:
    """So the next call of the program stops, before it does anything."""
    with pytest.raises(holdfast.LeaseLost), holdfast.run("r", store=url) as run:
        erase_behind_its_back(url)
        session = session_of(open_store(url))
        (journal,) = [journal for journal, _ in session.heartbeat._journals.values()]
        session.heartbeat._beat([journal])
        assert journal.lost is not None
        run.step("work", pytest.fail, "it ran")
