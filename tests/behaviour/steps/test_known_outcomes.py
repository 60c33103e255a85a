"""What a process knows of a call's end is held and written again while the store refuses, and given up only for a reason.

Seen before this was so: another process held SQLite's write lock for 13 s, a ``once`` tool acted, its outcome met ``StoreBusy``, and
the run was in doubt although the process knew the result. No test here waits for real: the clock of the store is set.
"""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import pytest
from tests.behaviour.conftest import SetClock

import holdfast
from holdfast import errors
from holdfast.engine import sync_async
from holdfast.engine.run.store_session import session_of
from holdfast.limits import OUTCOME_BACKOFF_S_MAX, OUTCOME_HOLD_S, OUTCOME_TELL_S
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

DEADLINE_S = 60.0

REFUSALS: dict[str, Callable[[], errors.StoreError]] = {
    "busy": lambda: errors.StoreBusy(store="s", problem="the database is locked"),
    "throttled": lambda: errors.Throttled(store="s", problem="slow down"),
    "unavailable": lambda: errors.StoreUnavailable(store="s", problem="disk I/O error"),
    "full": lambda: errors.DiskFull(store="s", problem="no space left"),
    "denied": lambda: errors.AccessDenied(store="s", problem="the token is too old"),
    "read-only": lambda: errors.StoreReadOnly(store="s", problem="mounted read-only"),
}


class Refusing(Relay):
    """Refuses the next ``left`` appends that carry an event of these kinds."""

    def __init__(self, url: str) -> None:
        super().__init__(open_store(url))
        self.kinds: frozenset[str] = frozenset()
        self.left = 0
        self.refused = 0
        self.error: Callable[[], errors.StoreError] = REFUSALS["busy"]
        self.also: frozenset[str] = frozenset()
        """Other verbs that are refused as long as appends are."""

    def refuse(self, *kinds: str, times: int, error: str = "busy") -> None:
        self.kinds, self.left, self.error = frozenset(kinds), times, REFUSALS[error]

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        is_meant = verb.__name__ in self.also
        if verb.__name__ == "append":
            is_meant = any(event.kind in self.kinds for item in args[0] for event in item.events)
        if self.left and is_meant:
            if verb.__name__ == "append":
                self.left -= 1
                self.refused += 1
            raise self.error()
        return super().pass_on(verb, *args, **kwargs)


class Hooked(SetClock):
    """A clock that calls back at each wait, before its time has passed."""

    on_sleep: Callable[[], object] = staticmethod(lambda: None)

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.on_sleep()
        super().sleep(seconds)


class Place:
    """A store that can be told to refuse, and its clock."""

    def __init__(self, url: str) -> None:
        self.port = Refusing(url)
        self.clock = Hooked()
        session_of(self.port, clock=self.clock)
        self.store = holdfast.Store(self.port)

    def kinds(self, run: str = "r") -> list[str]:
        return [event.kind for event in self.store.events(run) if event.kind.startswith("step.")]

    def doubts(self) -> list[str]:
        return [doubt.step for doubt in self.store.doubts("r")]


@pytest.fixture
def place(url: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(url)

    async def sleep(_: object, clock: Any, seconds: float) -> None:
        await asyncio.sleep(0)
        clock.sleep(seconds)

    monkeypatch.setattr(sync_async.AsyncRuntime, "sleep", sleep)
    return made


acts: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    acts.clear()


def act(value: object = "receipt") -> object:
    acts.append(value)
    return value


class Harmless(Exception):
    pass


@holdfast.tool(effect="once", harmless=(Harmless,))
def refuse_harmlessly() -> None:
    acts.append("tried")
    raise Harmless("the shop is closed")


@holdfast.tool(effect="once", verify=lambda: holdfast.Done("receipt"))
def raise_after_it() -> str:
    acts.append("paid")
    raise ConnectionError("the line broke")


def work(mode: str, place: Place, body: Callable[[Any], Any], **options: Any) -> Any:
    """Enter run ``r`` by each of the two handles; the body makes one call."""
    if mode == "blocking":
        with holdfast.run("r", store=place.store, **options) as run:
            return body(run)

    async def main() -> Any:
        async with holdfast.run("r", store=place.store, **options) as run:
            return await body(run)

    return asyncio.run(main())


@pytest.mark.parametrize("error", REFUSALS)
def test_a_known_outcome_is_written_when_the_store_is_back(
    place: Place, mode: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Seven refusals, then it is taken: the call returns, nothing is in doubt, and the log told what was held back.

    Planted once, as it was: the store's error came out and the next attempt was in doubt.
    """

    def body(run: Any) -> Any:
        place.port.refuse("step.finished", times=7, error=error)
        return run.once("pay", act)

    with caplog.at_level(logging.WARNING, "holdfast"):
        assert work(mode, place, body) == "receipt"
    assert place.port.refused == 7
    assert acts == ["receipt"]
    assert place.kinds() == ["step.started", "step.finished"]
    naps = place.clock.naps
    assert naps == sorted(naps)
    assert naps[-1] <= OUTCOME_BACKOFF_S_MAX
    told = [record.getMessage() for record in caplog.records]
    assert "step 'pay' has ended (done), and that cannot be written" in told[0]
    assert "was held back for" in told[-1]
    assert len(told) == 2  # not one for each try


@pytest.mark.parametrize(
    ("kind", "tool", "ends"),
    [
        ("step.failed", refuse_harmlessly, ["step.started", "step.failed"]),
        ("step.doubted", raise_after_it, ["step.started", "step.doubted", "step.settled"]),
        ("step.settled", raise_after_it, ["step.started", "step.doubted", "step.settled"]),
    ],
)
def test_every_kind_of_end_is_held(place: Place, kind: str, tool: Any, ends: list[str]) -> None:
    """A failure that is declared harmless, a doubt with its reason, a verdict: each is recorded once."""
    with holdfast.run("r", store=place.store) as run:
        place.port.refuse(kind, times=3)
        with suppress(Harmless):
            tool()
        run.finish("done")
    assert place.kinds() == ends
    assert len(acts) == 1


def test_a_step_and_a_model_call_are_held_too(place: Place, mode: str) -> None:
    """An answer that was paid for is not asked for again, and a long computation is not made again."""

    def ask(request: Any) -> Any:
        act("asked")
        return {"role": "assistant", "content": "yes"}

    def body(run: Any) -> Any:
        place.port.refuse("step.finished", times=2)
        if mode == "blocking":
            run.step("count", act, 1)
            place.port.refuse("step.finished", times=2)
            return run.model("ask", ask, {"messages": []})

        async def both() -> Any:
            await run.step("count", act, 1)
            place.port.refuse("step.finished", times=2)
            return await run.model("ask", ask, {"messages": []})

        return both()

    work(mode, place, body)
    assert acts == [1, "asked"]
    assert place.port.refused == 4


def test_an_intent_is_not_held(place: Place, mode: str) -> None:
    """Nothing has happened yet: the error comes at once, and nothing happens."""

    def body(run: Any) -> Any:
        place.port.refuse("step.started", times=1)
        return run.once("pay", act)

    with pytest.raises(errors.StoreBusy):
        work(mode, place, body)
    assert acts == []
    assert place.clock.naps == []


def test_given_up_it_is_in_doubt_and_nothing_worse(
    place: Place, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After ten minutes the error comes, of its own class, and says what it cost; the next attempt asks a person.

    The log has told of it once a minute.
    """

    def body(run: Any) -> Any:
        place.port.refuse("step.finished", times=10**6, error="full")
        return run.once("pay", act)

    began = place.clock.monotonic()
    with caplog.at_level(logging.WARNING, "holdfast"), pytest.raises(errors.DiskFull) as raised:
        work(mode, place, body)
    held_s = place.clock.monotonic() - began
    assert OUTCOME_HOLD_S <= held_s < OUTCOME_HOLD_S + 1
    assert str(raised.value) == (
        "store s: no space left; step 'pay' of run r has ended (done), and that is not recorded after 600 s: it is in doubt"
    )
    told = [r for r in caplog.records if "cannot be written" in r.getMessage() and "'pay'" in r.getMessage()]
    assert len(told) == OUTCOME_HOLD_S / OUTCOME_TELL_S
    place.port.left = 0
    assert place.doubts() == ["pay"]
    with pytest.raises(errors.StepInDoubt):
        work(mode, place, lambda run: run.once("pay", act))
    assert acts == ["receipt"]


def test_what_cannot_pass_is_not_waited_for(place: Place) -> None:
    """Damaged bytes do not mend themselves."""
    REFUSALS["corrupt"] = lambda: errors.Corrupt(store="s", problem="event #3 is damaged")
    with pytest.raises(errors.Corrupt), holdfast.run("r", store=place.store) as run:
        place.port.refuse("step.finished", times=1, error="corrupt")
        try:
            run.once("pay", act)
        finally:
            del REFUSALS["corrupt"]
    assert place.clock.naps == []
    assert place.doubts() == ["pay"]


class Interrupted(BaseException):
    """As Ctrl-C is one; pytest has a meaning of its own for that."""


class Unwritable:
    """A value that is interrupted while it is being written down."""


def _interrupt(_: Unwritable) -> None:
    raise Interrupted


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_cut_off_between_the_effect_and_its_record_it_is_in_doubt(place: Place, mode: str) -> None:
    """A program that goes past the interrupt and calls again does not make the effect again.

    Planted once: without ``_keep_open`` the second call acted again.
    """
    holdfast.register(Unwritable, encode=_interrupt, decode=lambda _: Unwritable())
    done: list[str] = []

    def act() -> Unwritable:
        done.append("act")
        return Unwritable()

    async def both(call: Callable[[], Any]) -> None:
        for expected in (Interrupted, errors.StepInDoubt):
            with pytest.raises(expected):
                made = call()
                if mode == "async":
                    await made

    if mode == "sync":
        run = holdfast.run("r", store=place.store).open()
        with suppress(StopIteration):
            both(lambda: run.options(key="k").once("act", act)).send(None)
        run.close()
    else:

        async def main() -> None:
            async with holdfast.run("r", store=place.store, stops="suppress") as entered:

                async def awaited() -> Unwritable:
                    return act()

                await both(lambda: entered.options(key="k").once("act", awaited))

        asyncio.run(main())
    assert done == ["act"]
    assert place.doubts() == ["act"]


def test_the_users_deadline_bounds_it(place: Place, mode: str) -> None:
    """``deadline=`` says until when the program waits for this call."""
    deadline = place.clock.wall() + 30

    def body(run: Any) -> Any:
        place.port.refuse("step.finished", times=10**6)
        return run.options(deadline=deadline).once("pay", act)

    with pytest.raises(errors.StoreBusy, match="after 30 s: it is in doubt"):
        work(mode, place, body)
    assert place.clock.wall() == pytest.approx(deadline)


def test_the_drain_of_a_worker_bounds_it(place: Place) -> None:
    """A worker that shuts down waits ``drain_s`` for what has begun: so long it is tried, and no longer."""
    heartbeat = session_of(place.port).heartbeat
    with pytest.raises(errors.StoreBusy, match="after 5 s"), holdfast.run("r", store=place.store) as run:
        place.port.refuse("step.finished", times=10**6)
        place.clock.on_sleep = lambda: heartbeat.drain(["r"], 5.0)
        run.once("pay", act)


def test_a_lost_lease_ends_it_and_the_outcome_goes_to_the_inbox(place: Place) -> None:
    """Another process took the run over meanwhile: it settles the call by the letter. Held is the letter, too."""

    def take_over() -> None:
        row = place.port.port.find_run("r")
        if row is not None and row.lease.fence == 1:
            place.port.port.acquire("r", at=row.lease.since, lease_s=30, over=row.lease)
        place.port.left = max(place.port.left - 1, 0)

    with pytest.raises(errors.LeaseLost), holdfast.run("r", store=place.store) as run:
        place.port.refuse("step.finished", times=5)
        place.port.also = frozenset({"put_record"})
        place.clock.on_sleep = take_over
        run.options(key="pay").once("pay", act)
    place.port.also = frozenset()
    row = place.port.find_run("r")
    assert row is not None
    place.port.release("r", fence=row.lease.fence)
    with holdfast.run("r", store=place.store) as run:
        assert run.options(key="pay").once("pay", act) == "receipt"
    assert acts == ["receipt"]


@pytest.mark.parametrize("is_back", [True, False], ids=["back", "still-refusing"])
def test_an_interrupt_ends_it_after_one_more_try(place: Place, is_back: bool) -> None:
    """Ctrl-C or SIGTERM in the middle of the waiting: what the store takes just now is written; else it is in doubt."""

    def interrupt() -> None:
        place.port.left = 0 if is_back else 10**6
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), holdfast.run("r", store=place.store) as run:
        place.port.refuse("step.finished", times=10**6)
        place.clock.on_sleep = interrupt
        run.once("pay", act)
    place.port.left = 0
    assert place.doubts() == ([] if is_back else ["pay"])
    assert place.kinds() == ["step.started", *(["step.finished"] if is_back else [])]


def test_a_cancelled_task_is_cancelled(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout around the call ends the waiting, and comes out as one. Planted once, as it was: StoreBusy hid the cancellation."""

    async def main() -> None:
        async with holdfast.run("r", store=place.store) as run:
            place.port.refuse("step.finished", times=10**6)
            task = asyncio.ensure_future(run.once("pay", act))
            place.clock.on_sleep = task.cancel
            with pytest.raises(asyncio.CancelledError):
                await task
            place.port.left = 0

    with pytest.raises(errors.StepInDoubt):
        asyncio.run(main())
    assert place.doubts() == ["pay"]


def test_cancelled_while_it_is_being_written(place: Place) -> None:
    """Cancelled inside the write, which then is refused: still a cancellation, and not the store's error, nor more waiting."""
    committer = session_of(place.port).committer

    async def main() -> None:
        async with holdfast.run("r", store=place.store) as run:
            place.port.refuse("step.finished", times=10**6)
            asked, is_held = asyncio.Event(), threading.Event()

            def pay() -> str:
                loop.call_soon_threadsafe(asked.set)
                assert is_held.wait(DEADLINE_S)
                return "receipt"

            loop = asyncio.get_running_loop()
            task = asyncio.ensure_future(run.options(key="pay").once("pay", pay))
            await asyncio.wait_for(asked.wait(), DEADLINE_S)
            with committer.gate:  # what is queued stays there
                is_held.set()
                while not committer.queue and not task.done():  # noqa: ASYNC110 - nobody sets an event when it is queued
                    await asyncio.sleep(0)
                task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            place.port.left = 0

    with pytest.raises(errors.StepInDoubt):
        asyncio.run(main())
    assert place.clock.naps == []


def test_the_loop_goes_on_meanwhile(place: Place) -> None:
    """An outcome that is held back holds its own task up, and no other."""
    ticks: list[int] = []

    async def main() -> None:
        async with holdfast.run("r", store=place.store) as run:
            place.port.refuse("step.finished", times=20)
            task = asyncio.ensure_future(run.once("pay", act))
            while not task.done():
                ticks.append(place.port.refused)
                await asyncio.sleep(0)
            assert await task == "receipt"

    asyncio.run(main())
    assert len({*ticks}) > 10


def test_threads_that_share_the_journal_are_all_held(place: Place) -> None:
    """Three calls of one run end while the store refuses: each is written, once, and the journal has no gap."""
    barrier = threading.Barrier(3)

    def pay(number: int) -> int:
        barrier.wait(DEADLINE_S)
        return number

    with holdfast.run("r", store=place.store) as run:
        place.port.refuse("step.finished", times=9)
        results: list[int] = []

        def make(number: int) -> None:
            results.append(run.options(key=f"pay-{number}").once("pay", pay, number))

        threads = [threading.Thread(target=run.bind(make), args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert sorted(results) == [0, 1, 2]
    events = place.store.events("r")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert place.kinds().count("step.finished") == 3


def test_leaving_the_block_bounds_it(place: Place) -> None:
    """A thread that holds an outcome back is waited for ``drain_s`` when the block is left; then it is over."""
    failed: list[BaseException] = []
    is_held = threading.Event()
    place.clock.on_sleep = is_held.set

    def body() -> None:
        try:
            run.once("pay", act)
        except BaseException as error:
            failed.append(error)

    with pytest.raises(errors.StepInDoubt), holdfast.run("r", store=place.store, drain_s=2) as run:
        place.port.refuse("step.finished", times=10**6)
        thread = threading.Thread(target=run.bind(body))
        thread.start()
        assert is_held.wait(DEADLINE_S)
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert len(failed) == 1


class Late(Relay):
    """A server that answers "unavailable" and carries the write out later: at the next look, or never."""

    def __init__(self, url: str, verb: str) -> None:
        super().__init__(open_store(url))
        self._verb = verb
        self._waiting: Any = None
        self.is_armed = False

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        is_outcome = verb.__name__ == "append" and any(
            e.kind == "step.finished" for i in args[0] for e in i.events
        )
        if is_outcome and self.is_armed:
            self.is_armed, self._waiting = False, args[0]
            raise errors.StoreUnavailable(store="s", problem="the line broke")
        if self._waiting is not None and verb.__name__ == self._verb:
            waiting, self._waiting = self._waiting, None
            if self._verb == "append":  # the late one arrives just before the next
                self.port.append(waiting)
                return verb(*args, **kwargs)
            found = verb(*args, **kwargs)
            self.port.append(waiting)  # it arrives behind our look
            return found
        return verb(*args, **kwargs)


@pytest.mark.parametrize("verb", ["append", "find_run", "read_events"])
def test_a_write_that_arrives_late_is_not_written_twice(url: str, verb: str) -> None:
    """The first try was of unknown outcome and arrives while the second is on its way: the journal has one outcome.

    Planted once: without a look for earlier tries there were two.
    """
    port = Late(url, verb)
    session_of(port, clock=SetClock())
    store = holdfast.Store(port)
    with holdfast.run("r", store=store) as run:
        port.is_armed = True
        assert run.once("pay", act) == "receipt"
        assert run.step("after", act, 2) == 2
    kinds = [event.kind for event in store.events("r") if event.name == "pay"]
    assert kinds == ["step.started", "step.finished"]


LOCKER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
print("free", flush=True)
"""


def test_another_process_that_holds_the_write_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The case that was seen: SQLite's lock is another process's while a once tool acts. It returns, and nothing is in doubt."""
    from holdfast.stores.sqlite import connection

    monkeypatch.setitem(connection.SETTINGS, "busy_timeout", 20)
    path = tmp_path / f"{uuid4().hex}.db"
    clock = Hooked()
    session_of(open_store(path), clock=clock)
    store = holdfast.store(path)
    others: list[subprocess.Popen[str]] = []

    def pay() -> str:
        other = subprocess.Popen(
            [sys.executable, "-c", LOCKER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        others.append(other)
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        return "receipt"

    def free() -> None:
        if len(clock.naps) == 4:
            others[0].communicate("\n", timeout=DEADLINE_S)

    clock.on_sleep = free
    try:
        with holdfast.run("r", store=store) as run:
            assert run.once("pay", pay) == "receipt"
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert len(clock.naps) == 4
    assert [event.kind for event in store.events("r") if event.name == "pay"] == [
        "step.started",
        "step.finished",
    ]
    assert apsw.Connection(str(path)).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
