"""An event loop is never held by a store: async runs call theirs in other threads, and every call comes to its end.

``tests/support/loop_watch`` looks at all other behaviour tests in the same way.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

import holdfast
from holdfast.engine import store_threads
from holdfast.engine.journal import inbox
from holdfast.engine.run.close import how_it_ended
from holdfast.engine.run.store_session import session_of
from holdfast.engine.sync_async import AWAITING
from holdfast.limits import STORE_THREADS_MAX
from holdfast.model.store_rows import Status
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

DEADLINE_S = 60.0
SLOW_S = 0.03


class Slow(Relay):
    """Takes its time for every verb, and notes the thread that each was called in."""

    def __init__(self, url: str, wait_s: float) -> None:
        super().__init__(open_store(url))
        self.wait_s = wait_s
        self.calls: list[tuple[str, threading.Thread]] = []
        self.inside: Callable[[str], object] = lambda _: None

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((verb.__name__, threading.current_thread()))
        self.inside(verb.__name__)
        time.sleep(self.wait_s)
        return super().pass_on(verb, *args, **kwargs)


@pytest.fixture
def slow(url: str) -> Iterator[Slow]:
    made = Slow(url, SLOW_S)
    session_of(made)
    yield made
    made.wait_s = 0.0


async def double(number: int) -> int:
    return number * 2


@pytest.mark.slow
def test_five_runs_on_a_slow_store_leave_the_loop_free(slow: Slow) -> None:
    """No verb is called in the loop's thread, and while each takes 30 ms the loop goes round. It stood for 3.2 s at a stretch."""
    store = holdfast.Store(slow)
    turns_by_call: list[int] = []
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def work(number: int) -> None:
        async with holdfast.run(f"r{number}", store=store) as run:
            for step in range(3):
                assert await run.step("double", double, step) == step * 2
            await run.checkpoint({"at": number})
            await run.think("so far so good")

    def note(_: str) -> None:
        if threading.current_thread() is not main:
            turns_by_call.append(turns)

    async def load() -> None:
        slow.inside = note
        ticker = asyncio.ensure_future(tick())
        await asyncio.gather(*(work(number) for number in range(5)))
        ticker.cancel()

    main = threading.current_thread()
    asyncio.run(load())
    assert [verb for verb, thread in slow.calls if thread is main] == []
    assert len(set(turns_by_call)) > len(turns_by_call) // (2 * STORE_THREADS_MAX)


def test_a_lone_run_leaves_the_loop_free_too(slow: Slow) -> None:
    """However many runs there are, and on resuming as on starting."""
    slow.wait_s = 0.0

    async def work() -> None:
        async with holdfast.run("r", store=holdfast.Store(slow)) as run:
            assert await run.restore({}) in ({}, {"at": 1})
            assert await run.step("large", lambda: "x" * 100_000) == "x" * 100_000
            await run.checkpoint({"at": 1})
            await run.close()

    main = threading.current_thread()
    for _ in range(2):
        asyncio.run(work())
    assert [verb for verb, thread in slow.calls if thread is main] == []


async def until(condition: Callable[[], bool]) -> None:
    """Until another thread has made it so."""
    async with asyncio.timeout(2 * DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - no task makes it so
            await asyncio.sleep(0.01)


class Turned(Relay):
    """Ends no call before the loop has gone round while it lasts: what holds the loop, or waits for a lock, never ends."""

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, url: str) -> None:
        super().__init__(open_store(url))
        self.verbs: set[str] = set()
        self.holding: list[str] = []

    def pass_on(self, verb: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if asyncio._get_running_loop() is not None:
            self.holding.append(verb.__name__)
        elif self.loop is not None:
            self.verbs.add(verb.__name__)
            turned = threading.Event()
            self.loop.call_soon_threadsafe(turned.set)
            if not turned.wait(DEADLINE_S):
                self.holding.append(verb.__name__)
        return super().pass_on(verb, *args, **kwargs)


def test_the_loop_goes_round_during_every_store_call(url: str) -> None:
    """Entering, steps, states, letters, waiting, beats and leaving, of five runs at once. No thread and no clock is looked
    at: each call asks the loop for a turn and waits for it. (Planted: an append in the loop's thread.)"""
    port = Turned(url)
    session_of(port, lease_s=0.3)
    store = holdfast.Store(port)

    async def work(number: int, fails: bool) -> None:
        async with holdfast.run(f"r{number}", store=store) as run:
            assert await run.restore({"at": number}) == {"at": number}
            assert await run.step("double", double, number) == number * 2
            await run.once("large", lambda: "x" * 100_000)
            if number:
                assert (await run.receive(wait_s=DEADLINE_S)).value == number - 1
            await until(lambda: {"wait", "renew"} <= port.verbs)
            if number < 4:
                await run.send(f"r{number + 1}", number)
            if fails:
                raise ZeroDivisionError
            await run.checkpoint({"at": number})

    async def load() -> None:
        port.loop = asyncio.get_running_loop()
        for fails in (True, False):  # the second attempt resumes
            works = asyncio.gather(*(work(number, fails) for number in range(5)), return_exceptions=True)
            ended = [type(end) for end in await asyncio.wait_for(works, 5 * DEADLINE_S)]
            assert ended == [ZeroDivisionError if fails else type(None)] * 5
        port.loop = None

    asyncio.run(load())
    assert port.holding == []
    asked = {"create_run", "find_run", "acquire", "append", "read_events", "get_blobs", "put_record"}
    assert asked | {"scan_records", "wait", "renew", "release"} <= port.verbs


def test_runs_come_and_go_while_a_beat_lasts(url: str) -> None:
    """Beats and waits have threads of their own: no lock that entering or leaving takes in the loop is kept meanwhile.

    Each ends only when another run was entered, has received a letter and was left. (Planted: a beat that keeps the lock
    of the heartbeat; a wait that keeps that of the wakeup.)
    """
    port = Slow(url, 0.0)
    wakeup = session_of(port, lease_s=0.3).wakeup
    store = holdfast.Store(port)
    passed: list[str] = []

    async def another(verb: str) -> None:
        async with holdfast.run(f"during-{verb}", store=store) as run:
            receiving = asyncio.ensure_future(run.receive(wait_s=DEADLINE_S))
            await until(lambda: run.id in {listener[0] for listener in wakeup._listeners.values()})
            await run.send(run.id, 1)
            assert (await receiving).value == 1
        passed.append(verb)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        begun: set[str] = set()

        def during(verb: str) -> None:
            if verb in {"renew", "wait"} and verb not in begun:
                begun.add(verb)
                asyncio.run_coroutine_threadsafe(another(verb), loop).result(DEADLINE_S)

        async with holdfast.run("r", store=store) as run:
            port.inside = during
            waiting = asyncio.ensure_future(run.receive(wait_s=DEADLINE_S))
            await until(lambda: len(passed) == 2)
            await run.send("r", 2)
            assert (await waiting).value == 2

    asyncio.run(main())
    assert sorted(passed) == ["renew", "wait"]


def test_store_calls_use_few_threads_of_our_own(slow: Slow) -> None:
    """Bounded, and not the loop's own: those may all be busy with the program's plain functions."""
    slow.wait_s = 0.001

    async def work(number: int) -> None:
        async with holdfast.run(f"r{number}", store=holdfast.Store(slow)) as run:
            await run.step("double", double, 1)

    async def load() -> None:
        await asyncio.gather(*(work(number) for number in range(20)))

    asyncio.run(load())
    threads = {thread for _, thread in slow.calls if thread.name.startswith("holdfast-store")}
    assert 0 < len(threads) <= STORE_THREADS_MAX


def test_a_cancelled_task_waits_for_its_store_call() -> None:
    """The call comes to its end before the cancellation is raised, however often the task is cancelled."""
    began, go, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        assert go.wait(DEADLINE_S)
        ended.set()

    async def main() -> None:
        task = asyncio.ensure_future(AWAITING.store(call))
        await asyncio.to_thread(began.wait, DEADLINE_S)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(main())


def test_an_error_behind_a_cancellation_is_not_complained_about(caplog: pytest.LogCaptureFixture) -> None:
    """The cancellation counts; nobody hears of an exception that was never retrieved."""
    began, go = threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        assert go.wait(DEADLINE_S)
        raise OSError("broken")

    async def main() -> None:
        task = asyncio.ensure_future(AWAITING.store(call))
        await asyncio.to_thread(began.wait, DEADLINE_S)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert "never retrieved" not in caplog.text


def test_store_calls_see_the_context_of_the_task() -> None:
    """Whoever traces them finds the span that they belong to."""
    where: ContextVar[str] = ContextVar("where", default="nowhere")

    async def main() -> str:
        where.set("here")
        return await AWAITING.store(where.get)

    assert asyncio.run(main()) == "here"


@pytest.mark.parametrize("how", ["in_time", "late"])
def test_a_timeout_around_a_step_is_one(url: str, how: str) -> None:
    """A deadline of the program's that passes while a store call is on its way comes out as TimeoutError, and the run goes on."""
    port = Slow(url, 0.0)
    session_of(port)

    async def main() -> list[str]:
        told = []
        async with holdfast.run("r", store=holdfast.Store(port)) as run:
            await run.step("first", double, 1)
            if how == "late":
                loop = asyncio.get_running_loop()
                asked = asyncio.Event()
                port.inside = lambda _: loop.call_soon_threadsafe(asked.set)
                port.wait_s = SLOW_S
                limit = asyncio.timeout(None)
                expiry = loop.create_task(_expire(asked, limit))
                with pytest.raises(TimeoutError):
                    async with limit:
                        await run.step("second", double, 2)
                await expiry
                told.append("late")
            port.inside, port.wait_s = (lambda _: None), 0.0
            assert await run.step("third", double, 3) == 6
        return told

    async def _expire(asked: asyncio.Event, limit: asyncio.Timeout) -> None:
        await asked.wait()
        limit.reschedule(0)

    assert asyncio.run(main()) == (["late"] if how == "late" else [])


def test_a_lease_that_is_granted_to_a_cancelled_task_is_given_back(url: str) -> None:
    """Cancelled while the store grants it, entering leaves no lease that nobody holds: the next one enters at once."""
    port = Slow(url, 0.0)
    session_of(port)
    store = holdfast.Store(port)

    async def enter() -> None:
        async with holdfast.run("r", store=store):
            raise AssertionError("never entered")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen, go = asyncio.Event(), threading.Event()

        def stop(verb: str) -> None:
            if verb == "acquire":
                loop.call_soon_threadsafe(seen.set)
                assert go.wait(DEADLINE_S)

        port.inside = stop
        task = asyncio.ensure_future(enter())
        await seen.wait()
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        port.inside = lambda _: None

    asyncio.run(main())
    with holdfast.run("r", store=store) as run:
        assert run.step("one", str, 1) == "1"


@pytest.mark.parametrize("how", ["cancelled", "shut down"])
def test_a_run_that_is_left_is_left_whole(url: str, how: str) -> None:
    """Cancelled while its end is written, or the whole loop with it, it is handed back and let go all the same."""
    port = Slow(url, 0.0)
    session_of(port)
    store = holdfast.Store(port)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen, go = asyncio.Event(), threading.Event()
        is_leaving = False

        def stop(verb: str) -> None:
            if verb == "append" and is_leaving:
                loop.call_soon_threadsafe(seen.set)
                assert go.wait(DEADLINE_S)

        async def work() -> None:
            nonlocal is_leaving
            async with holdfast.run("r", store=store) as run:
                await run.step("one", double, 1)
                is_leaving = True
                raise ValueError("over")

        port.inside = stop
        task = asyncio.ensure_future(work())
        await seen.wait()
        if how == "shut down":  # the loop cancels every task that it finds, and runs until they are done
            loop.call_later(0.05, go.set)
            return
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        go.set()
        with pytest.raises(ValueError, match="over"):
            await task

    asyncio.run(main())
    row = port.port.find_run("r")
    assert row is not None
    assert (row.status, row.lease.owner) == (Status.FAILED, "")
    assert [event.kind for event in store.events("r")][-1] == "attempt.ended"


def test_a_letter_is_taken_in_once(url: str) -> None:
    """Two tasks that find the same letter record what it says once: the other one leaves it to the first."""
    store = holdfast.store(url)

    def cut() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), holdfast.run("r", store=url) as run:
        run.once("pay", cut)

    async def main() -> None:
        async with holdfast.run("r", store=url) as run:
            store.resolve("r", "pay", "done", value=7)
            await asyncio.gather(*(inbox.drain(run._held, AWAITING) for _ in range(3)))
            found: object = await run.once("pay", cut)
            assert found == 7

    asyncio.run(main())
    assert [event.kind for event in store.events("r")].count("step.settled") == 1


def test_a_fork_has_threads_of_its_own() -> None:
    """What a child process inherits of the threads is not used."""

    async def main() -> None:
        await AWAITING.store(int)

    asyncio.run(main())
    assert store_threads._pool is not None
    store_threads._forget_pool()
    asyncio.run(main())
    assert store_threads._pool is not None


def test_an_error_that_is_called_like_an_interruption_is_a_failure() -> None:
    """What ends an attempt is told by its class, not by the name of it."""

    class CancelledError(Exception):
        pass

    class Terminated(Exception):
        pass

    assert how_it_ended(CancelledError()) == how_it_ended(Terminated()) == Status.FAILED
    ends: list[BaseException] = [
        asyncio.CancelledError(),
        KeyboardInterrupt(),
        SystemExit(),
        holdfast.errors.Terminated(),
    ]
    assert {how_it_ended(error) for error in ends} == {Status.INTERRUPTED}
