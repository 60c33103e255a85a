"""Threads, tasks, nesting, and both kinds of functions in both kinds of runs."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import holdfast
from holdfast.engine.run.call_site import TaskCalls
from holdfast.engine.steps import marks
from holdfast.engine.steps.marks import placed

calls: list[object] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


class Crash(Exception):
    pass


def note(value: object = None) -> object:
    calls.append(value)
    return value


async def note_async(value: object = None) -> object:
    await asyncio.sleep(0)
    calls.append(value)
    return value


def test_steps_from_many_threads_are_all_recorded_once(url: str) -> None:
    """A pool of threads on one run: no call lost, none doubled, the journal without a gap."""
    for _ in range(2):
        with pytest.raises(Crash), holdfast.run("a", store=url) as run:
            with ThreadPoolExecutor(8) as pool:
                got = list(pool.map(lambda n: run.step("work", note, n), range(60)))
            assert got == list(range(60))
            raise Crash
    assert sorted(calls, key=str) == sorted(range(60), key=str)
    seqs = [event.seq for event in holdfast.store(url).events("a")]
    assert seqs == list(range(1, len(seqs) + 1))


def test_bound_functions_keep_their_place(url: str) -> None:
    """run.bind carries scope and run into a thread, so that nested calls and tools find them."""

    @holdfast.tool(effect="read")
    def look(what: str) -> str:
        calls.append(what)
        return what

    for _ in range(2):
        with pytest.raises(Crash), holdfast.run("a", store=url) as run:
            with run.scope("s"), ThreadPoolExecutor(2) as pool:
                assert list(pool.map(run.bind(look), ["x", "y"])) == ["x", "y"]
            raise Crash
    assert sorted(map(str, calls)) == ["x", "y"]


def test_async_steps_run_and_replay(url: str) -> None:
    """Async and plain functions, gathered and in a TaskGroup, run once."""

    async def main() -> list[Any]:
        async with holdfast.run("a", store=url) as run:
            got = list(await asyncio.gather(*(run.step("g", note_async, n) for n in range(5))))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run.step("t", note, n)) for n in range(5)]
            got += [task.result() for task in tasks]
            await run.checkpoint({"got": got})
            raise Crash
        return []

    for _ in range(2):
        with pytest.raises(Crash):
            asyncio.run(main())
    assert len(calls) == 10


def test_sync_functions_in_async_runs_do_not_block_the_loop(url: str) -> None:
    """While a plain function sleeps in a step, other tasks of the loop go on."""
    ticks: list[int] = []

    async def main() -> None:
        async with holdfast.run("a", store=url) as run:
            started = threading.Event()
            release = threading.Event()

            def slow() -> bool:
                started.set()
                return release.wait(60)

            step = asyncio.create_task(run.options(key="slow").step("slow", slow))
            await asyncio.to_thread(started.wait, 20)
            ticks.append(1)
            release.set()
            assert await step

    asyncio.run(main())
    assert ticks == [1]


def test_a_blocking_run_works_inside_a_running_loop(url: str) -> None:
    """``with holdfast.run`` inside a coroutine: blocking, but right."""

    async def main() -> None:
        with holdfast.run("a", store=url) as run:
            assert run.step("s", note, 1) == 1

    asyncio.run(main())


def test_an_async_function_in_a_blocking_run_is_refused(url: str) -> None:
    """The error says how to enter the run for it; nothing is awaited by accident."""
    with pytest.raises(holdfast.Misuse, match="is async"), holdfast.run("a", store=url) as run:
        run.step("s", note_async, 1)  # type: ignore[unused-coroutine]


def test_async_tools_and_sync_tools_in_an_async_run(url: str) -> None:
    """A tool is called as it was written: awaited or not."""

    @holdfast.tool
    async def send(what: str) -> str:
        await asyncio.sleep(0)
        calls.append(what)
        return what

    @holdfast.tool(effect="read")
    def look(what: str) -> str:
        calls.append(what)
        return what

    async def main() -> None:
        async with holdfast.run("a", store=url):
            got = [await send("x"), look("y"), *await asyncio.gather(send("p"), send("q"))]
            assert got == ["x", "y", "p", "q"]
            raise Crash

    for _ in range(2):
        with pytest.raises(Crash):
            asyncio.run(main())
    assert sorted(map(str, calls)) == ["p", "q", "x", "y"]


def test_nested_steps_in_async_runs(url: str) -> None:
    """Steps inside steps, also from a plain function that runs in its thread."""

    async def main() -> None:
        async with holdfast.run("a", store=url) as run:

            async def outer() -> object:
                return await run.step("inner", note_async, 1)

            assert await run.step("outer", outer) == 1

            @holdfast.tool(effect="read")
            def look() -> str:
                return str(note("looked"))

            assert await run.step("thread", lambda: look()) == "looked"  # noqa: PLW0108 - captured by name
            raise Crash

    for _ in range(2):
        with pytest.raises(Crash):
            asyncio.run(main())
    assert calls == [1, "looked"]


def test_many_async_runs_share_one_store(url: str) -> None:
    """Fifty runs at once on one store: all finished, each journal whole."""

    async def one(n: int) -> None:
        async with holdfast.run(f"r{n}", store=url) as run:
            for i in range(5):
                assert await run.step("s", note_async, i) == i
            await run.finish(n)

    async def main() -> None:
        await asyncio.gather(*(one(n) for n in range(50)))

    asyncio.run(main())
    infos = holdfast.store(url).runs()
    assert len(infos) == 50
    assert {info.status for info in infos} == {"finished"}
    assert len(calls) == 250


def test_stop_signals_escape_task_groups(url: str) -> None:
    """A stop-signal raised in a TaskGroup leaves the block as itself."""

    def unsure() -> None:
        raise OSError("cut")

    async def main() -> None:
        async with holdfast.run("a", store=url) as run, asyncio.TaskGroup() as group:
            group.create_task(run.once("pay", unsure))

    with pytest.raises((holdfast.StepInDoubt, BaseExceptionGroup)):
        asyncio.run(main())
    assert holdfast.store(url).get("a").status == "in_doubt"


def test_leaving_waits_for_calls_in_flight(url: str) -> None:
    """A step in another thread is recorded before the lease goes, even if the block ends with an error."""
    started = threading.Event()

    def slow() -> str:
        started.set()
        time.sleep(0.2)
        return "done"

    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        thread = threading.Thread(target=lambda: run.options(key="slow").step("slow", slow))
        thread.start()
        assert started.wait(60)
        raise Crash
    thread.join()
    with holdfast.run("a", store=url) as run:
        assert run.options(key="slow").step("slow", slow) == "done"


def test_leaving_does_not_wait_for_ever(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """After drain_s the block is left, and the log says what still ran."""
    started, release = threading.Event(), threading.Event()

    def stuck() -> None:
        started.set()
        release.wait(60)

    thread = None
    try:
        with pytest.raises(Crash), holdfast.run("a", store=url, drain_s=0.05) as run:

            def work() -> None:
                with pytest.raises((holdfast.HandleClosed, holdfast.LeaseLost)):
                    run.options(key="stuck").step("stuck", stuck)

            thread = threading.Thread(target=work)
            thread.start()
            assert started.wait(60)
            raise Crash
    finally:
        release.set()
        if thread is not None:
            thread.join()
    assert "leaving run a while stuck still runs" in caplog.text


def test_the_same_key_twice_at_once_is_refused(url: str) -> None:
    """A key is one call: while it runs, a second one with it is told so."""
    started, release = threading.Event(), threading.Event()

    def slow() -> int:
        started.set()
        release.wait(60)
        return 1

    with holdfast.run("a", store=url) as run:
        thread = threading.Thread(target=lambda: run.options(key="k").step("s", slow))
        thread.start()
        assert started.wait(60)
        with pytest.raises(holdfast.Misuse, match="running already"):
            run.options(key="k").step("s", slow)
        release.set()
        thread.join()
        assert run.options(key="k").step("s", slow) == 1


def test_equal_calls_at_once_are_two_calls(url: str) -> None:
    """The same call from two tasks at the same time: both run, both are recorded, both replay."""

    async def main() -> list[Any]:
        async with holdfast.run("a", store=url) as run:
            got = await asyncio.gather(*(run.step("s", note_async, "same") for _ in range(3)))
            assert got == ["same"] * 3
            raise Crash
        return []

    for _ in range(2):
        with pytest.raises(Crash):
            asyncio.run(main())
    assert calls == ["same"] * 3


async def pay_in_tasks(url: str, first: str, people: tuple[str, ...] = ("ann", "bob")) -> dict[str, Any]:
    """Each task fetches, draws and pays; the one named goes on before the others. Then the program crashes."""
    drawn: dict[str, Any] = {}
    turn = asyncio.Event()

    async def task(run: holdfast.AsyncRun, name: str) -> None:
        await run.step("fetch", note_async, name)
        if name != first:
            await turn.wait()
        drawn[name] = await run.uuid(), await run.random(), await run.now()
        turn.set()
        await run.once("pay", note_async, [name, *drawn[name]])

    with suppress(Crash):
        async with holdfast.run("a", store=url) as run:
            own = await run.uuid()
            await asyncio.gather(*(task(run, name) for name in people))
            drawn["root"] = own, await run.uuid()
            raise Crash
    return drawn


def test_tasks_draw_their_own_values_in_any_order(url: str) -> None:
    """A task gets its own values again, whichever of them comes first, so that no effect is done a second time.

    Planted once: with all draws counted together, the two got each other's values, and both were paid twice.
    """
    before = asyncio.run(pay_in_tasks(url, "ann"))
    paid = len(calls)
    assert len({*before["ann"], *before["bob"], *before["root"]}) == 8
    assert asyncio.run(pay_in_tasks(url, "bob")) == before
    assert asyncio.run(pay_in_tasks(url, "bob", ("bob", "ann"))) == before
    assert len(calls) == paid


def test_draws_of_earlier_versions_are_found(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """These versions counted the draws of all tasks together, and said so in no record."""
    with monkeypatch.context() as old:
        old.setattr(TaskCalls, "own", "")
        old.setattr(marks, "placed", lambda asked, fields: placed(asked, without_mark(fields)))
        before = asyncio.run(pay_in_tasks(url, "ann"))
    assert not [e for e in holdfast.store(url).events("a") if b"of_task" in e.body]
    assert asyncio.run(pay_in_tasks(url, "ann")) == before


def without_mark(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "of_task"}


def test_a_draw_of_the_root_task_is_not_given_to_another_task(url: str) -> None:
    """A new draw in a task, while the root task has recorded ones that it did not ask for yet, is a new value."""

    async def attempt(*, draws: bool) -> list[Any]:
        drawn: list[Any] = []

        async def task(run: holdfast.AsyncRun) -> None:
            await run.step("fetch", note_async, 1)
            if draws:
                drawn.append(await run.uuid())

        with suppress(Crash):
            async with holdfast.run("a", store=url) as run:
                await asyncio.gather(task(run))
                drawn.append(await run.uuid())
                raise Crash
        return drawn

    (root,) = asyncio.run(attempt(draws=False))
    inner, again = asyncio.run(attempt(draws=True))
    assert again == root != inner


async def draw_first(url: str, first: str, *, alike: bool = False, nested: bool = False) -> dict[str, Any]:
    """Two tasks that draw before any call, the one named first. ``alike``: with equal arguments."""
    drawn: dict[str, Any] = {}
    turn = asyncio.Event()
    names = iter(("ann", "bob"))

    async def task(run: holdfast.AsyncRun, shared: list[str], who: str) -> None:
        name = next(names) if alike else who
        if name != first:
            await turn.wait()
        shared.append(name)
        drawn[name] = await run.uuid(), await run.random(), await run.now()
        turn.set()
        await run.once("pay", note_async, [name, *drawn[name]])

    async def outer(run: holdfast.AsyncRun, shared: list[str], who: str) -> None:
        if not nested:
            return await task(run, shared, who)
        await run.step("begin", note_async, who)
        await asyncio.gather(asyncio.create_task(inner(run, shared, [who])))
        return None

    async def inner(run: holdfast.AsyncRun, shared: list[str], names: list[str]) -> None:
        if names != [first]:
            await turn.wait()
        drawn[names[0]] = await run.uuid()
        turn.set()

    shared: list[str] = []
    with suppress(Crash):
        async with holdfast.run("a", store=url) as run:
            drawn["before"] = await run.uuid()
            await asyncio.gather(*(outer(run, shared, "" if alike else who) for who in ("ann", "bob")))
            drawn["root"] = await run.uuid()
            raise Crash
    return drawn


@pytest.mark.parametrize("nested", [False, True])
def test_tasks_that_draw_before_any_call_have_their_own_values(url: str, nested: bool) -> None:
    """A task is known by its function and arguments, and by those of the task that started it, if that one made a call.

    Before, such draws were counted in the order of arrival: after a kill, tasks got each other's values, and both
    were paid twice.
    """
    before = asyncio.run(draw_first(url, "ann", nested=nested))
    paid = len(calls)
    assert asyncio.run(draw_first(url, "bob", nested=nested)) == before
    assert len(calls) == paid


def test_equal_tasks_are_counted_in_order(url: str) -> None:
    """Nothing distinguishes them, and either may have either value; the root task keeps its own."""
    before = asyncio.run(draw_first(url, "ann", alike=True))
    after = asyncio.run(draw_first(url, "bob", alike=True))
    assert after == {**before, "ann": before["bob"], "bob": before["ann"]}


def test_draws_that_were_counted_in_order_are_found(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier version counted the draws before a task's first call together with those of the root task."""
    with monkeypatch.context() as old:
        old.setattr(TaskCalls, "program", "")
        old.setattr(marks, "placed", lambda asked, fields: placed(asked, as_before(fields)))
        before = asyncio.run(draw_first(url, "ann"))
    paid = len(calls)
    assert asyncio.run(draw_first(url, "ann")) == before
    assert len(calls) == paid


def as_before(fields: dict[str, Any]) -> dict[str, Any]:
    return {"by_task" if name == "of_task" else name: value for name, value in fields.items()}
