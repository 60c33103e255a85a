"""Runs that are opened without a block, in notebooks and services; and calls that a program forgot to await.

Seen before: a notebook cell that was run twice opened ``cell/cell`` and published twice; a second ``.open()`` of another
run became a child of the first; ``run.finish(x)`` without ``await`` recorded a finished run with the result None.
"""

import asyncio
import contextvars
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.model.event_fields import fields_of

published: list[str] = []


@pytest.fixture(autouse=True)
def nothing_published() -> None:
    published.clear()


@holdfast.tool(effect="once", name="publish")
def publish(text: str) -> str:
    published.append(text)
    return text


@holdfast.tool(effect="once", name="publish")
async def publish_async(text: str) -> str:
    published.append(text)
    return text


def runs_in(url: str) -> list[str]:
    return sorted(info.run for info in holdfast.store(url).runs())


# -- the same cell again -------------------------------------------------------------------------------------------


def test_a_cell_that_is_run_twice(url: str) -> None:
    """The same run, from its beginning: what is recorded answers, and the handle is the same one."""

    def cell() -> holdfast.Run:
        run = holdfast.run("cell", store=url).open()
        publish("x")
        return run

    first = cell()
    again = cell()
    assert again is first
    assert published == ["x"]
    assert runs_in(url) == ["cell"]
    assert (again.id, again.attempt, again.resumed) == ("cell", 2, True)
    assert publish("y") == "y"
    again.finish("done")
    cell().close()
    assert published == ["x", "y"]
    assert holdfast.store(url).get("cell").status == "finished"


def test_an_async_cell_that_is_run_twice(url: str) -> None:
    """``open_async`` is the same for programs that await."""

    async def cell() -> holdfast.AsyncRun:
        run = await holdfast.run("cell", store=url).open_async()
        await publish_async("x")
        return run

    async def notebook() -> None:
        first = await cell()
        again = await cell()
        assert again is first
        assert holdfast.current() is again
        assert await again.step("more", lambda: 1) == 1
        await again.finish("done")
        await again.close()

    asyncio.run(notebook())
    assert published == ["x"]
    assert runs_in(url) == ["cell"]
    assert holdfast.store(url).get("cell").status == "finished"


def test_a_block_after_open(url: str) -> None:
    """A cell that was changed from ``.open()`` to ``with`` goes on with the same run."""
    holdfast.run("cell", store=url).open()
    publish("x")
    with holdfast.run("cell", store=url) as run:
        assert run.id == "cell"
        publish("x")
    assert published == ["x"]
    assert runs_in(url) == ["cell"]


def test_open_inside_its_own_block(url: str) -> None:
    """The same id in the same task is the run that is open already."""
    with holdfast.run("cell", store=url) as run:
        publish("x")
        assert holdfast.run("cell", store=url).open() is run
        publish("y")
    assert runs_in(url) == ["cell"]
    assert published == ["x", "y"]


def test_a_new_run_of_a_series(url: str) -> None:
    """With if_finished="new" the cell goes on with the one that is not finished."""
    for _ in range(2):
        run = holdfast.run("daily", store=url, if_finished="new").open()
        publish("x")
    run.finish()
    run.close()
    assert holdfast.run("daily", store=url, if_finished="new").open().id == "daily.2"
    publish("x")
    assert published == ["x", "x"]
    assert runs_in(url) == ["daily", "daily.2"]
    holdfast.run("daily", store=url, if_finished="new").open().close()


def test_inputs_count_as_ever(url: str) -> None:
    """Other inputs under the same id are refused, and the cell can be run again with the right ones."""
    holdfast.run("cell", store=url, inputs={"n": 1}).open()
    with pytest.raises(holdfast.InputsChanged):
        holdfast.run("cell", store=url, inputs={"n": 2}).open()
    run = holdfast.run("cell", store=url, inputs={"n": 1}).open()
    run.step("s", lambda: 1)
    run.close()


# -- another task ---------------------------------------------------------------------------------------------------


def test_another_thread_is_refused(url: str) -> None:
    """Only the task that opened a run may open it again: two at once would both be at its beginning."""
    run = holdfast.run("cell", store=url).open()
    refused: list[BaseException] = []

    def other() -> None:
        try:
            holdfast.run("cell", store=url).open()
        except holdfast.RunHeld as held:
            refused.append(held)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(60)
    assert len(refused) == 1
    run.step("s", lambda: 1)
    run.close()


def test_another_task_is_refused(url: str) -> None:
    """Two requests of a service, in one loop."""

    async def request() -> str:
        try:
            run = await holdfast.run("session", store=url).open_async()
        except holdfast.RunHeld:
            return "refused"
        await asyncio.sleep(0)
        await run.close()
        return "served"

    async def service() -> list[str]:
        holder = await holdfast.run("session", store=url).open_async()
        found = await asyncio.gather(*(asyncio.create_task(request()) for _ in range(2)))
        await holder.step("s", lambda: 1)
        await holder.close()
        return [*found, await request()]

    assert asyncio.run(service()) == ["refused", "refused", "served"]


# -- nothing nests by .open() ---------------------------------------------------------------------------------------


def test_two_runs_opened_side_by_side(url: str) -> None:
    """The second is no child. Tools go to the one opened last; when it is closed, to the other again."""
    one = holdfast.run("one", store=url).open()
    two = holdfast.run("two", store=url).open()
    assert (one.id, two.id) == ("one", "two")
    assert holdfast.current() is two
    publish("x")
    two.close()
    assert holdfast.current() is one
    one.close()
    with pytest.raises(holdfast.NoCurrentRun):
        holdfast.current()
    assert runs_in(url) == ["one", "two"]
    assert [e.kind for e in holdfast.store(url).events("two") if e.name == "publish"] == [
        "step.started",
        "step.finished",
    ]
    assert not [e for e in holdfast.store(url).events("one") if e.name == "child"]


def test_opened_inside_a_block(url: str) -> None:
    """It is a run of its own, and the block's run is current again behind it; a block inside a block is a child as ever."""
    with holdfast.run("block", store=url) as block:
        inner = holdfast.run("opened", store=url).open()
        assert inner.id == "opened"
        inner.close()
        assert holdfast.current() is block
        with holdfast.run("child", store=url) as child:
            assert child.id == "block/child"
    assert runs_in(url) == ["block", "block/child", "opened"]


def test_a_run_keeps_its_scope_beside_another(url: str) -> None:
    """A call of a run is in that run's scope, whether another one was opened since, or opened and closed."""
    one = holdfast.run("one", store=url).open()
    with one.scope("a"):
        two = holdfast.run("two", store=url).open()
        one.step("beside", len, "x")
        two.close()
        one.step("behind", len, "x")
        publish("x")
    one.close()
    events = [e for e in holdfast.store(url).events("one") if e.kind == "step.started"]
    assert {e.name: bool(fields_of(e.body)["in"]) for e in events} == dict.fromkeys(
        ("beside", "behind", "publish"), True
    )


def test_a_block_behind_open_is_a_child(url: str) -> None:
    """A block says that it is inside; so it is part of the run that is open."""
    run = holdfast.run("cell", store=url).open()
    with holdfast.run("part", store=url) as part:
        assert part.id == "cell/part"
    assert holdfast.current() is run
    run.close()


def test_closed_elsewhere(url: str) -> None:
    """A handle that was closed in another context is no longer current, and can be opened again."""
    run = holdfast.run("cell", store=url).open()
    contextvars.Context().run(run.close)
    again = holdfast.run("cell", store=url).open()
    assert again.attempt == 2
    again.close()


def test_many_cells(url: str) -> None:
    """Opening again and again keeps nothing of the runs before."""
    from holdfast.api import enter

    for _ in range(20):
        holdfast.run("cell", store=url).open()
    holdfast.run("cell", store=url).open().close()
    holdfast.run("other", store=url).open().close()
    assert len(enter._opened) <= 2


# -- calls that nobody awaits ---------------------------------------------------------------------------------------


def line_of(fn: Callable[..., Any], text: str) -> str:
    """Where the text is in the source of the function."""
    import inspect

    lines, first = inspect.getsourcelines(fn)
    return f"{__file__}:{first + next(n for n, line in enumerate(lines) if text in line)}"


async def forgets_finish(url: str) -> None:
    async with holdfast.run("r", store=url) as run:
        run.finish("done")  # type: ignore[unused-coroutine]  # the mistake


async def forgets_step(url: str) -> None:
    async with holdfast.run("r", store=url) as run:
        run.step("s", publish.fn, "x")  # type: ignore[unused-coroutine]
        await run.finish("done")


async def forgets_options(url: str) -> None:
    async with holdfast.run("r", store=url) as run:
        run.options(key="k").once("s", publish.fn, "x")  # type: ignore[unused-coroutine]


async def forgets_messages(url: str) -> None:
    async with holdfast.run("r", store=url) as run:
        run.messages.append({"role": "user", "content": "hello"})  # type: ignore[unused-coroutine]


async def forgets_in_open(url: str) -> None:
    run = await holdfast.run("r", store=url).open_async()
    run.think("of it")  # type: ignore[unused-coroutine]
    await run.close()


@pytest.mark.parametrize(
    ("program", "text", "call"),
    [
        (forgets_finish, "run.finish", "finish"),
        (forgets_step, "run.step", "step"),
        (forgets_options, "run.options", "once"),
        (forgets_messages, "run.messages", "append"),
        (forgets_in_open, "run.think", "think"),
    ],
)
def test_a_call_that_is_not_awaited(program: Callable[[str], Any], text: str, call: str, url: str) -> None:
    """The run does not finish, and the error names the line; nothing is recorded as finished."""
    with warnings.catch_warnings(), pytest.raises(holdfast.NeverAwaited) as refused:
        warnings.simplefilter("error")
        asyncio.run(program(url))
    assert line_of(program, text) in str(refused.value)
    assert f"{call}(…)" in str(refused.value)
    assert holdfast.store(url).get("r").status == "failed"
    assert published == []


def test_awaited_later_is_awaited(url: str) -> None:
    """Coroutines that are gathered, put into tasks, or awaited a line later are calls like others."""

    async def main() -> None:
        async with holdfast.run("r", store=url) as run:
            await asyncio.gather(*(run.step("s", len, "x" * n) for n in range(100)))
            later = run.step("later", len, "xx")
            await run.step("before", len, "x")
            assert await later == 2
            task = asyncio.create_task(run.step("task", len, "xxx"))
            assert await asyncio.wait_for(run.step("timed", len, "x"), 60) == 1
            assert await task == 3
            run.step("given up", len, "x").close()
            background = asyncio.create_task(run.step("background", len, "xxxx"))
        assert await background == 4

    asyncio.run(main())
    assert holdfast.store(url).get("r").status == "finished"


def test_an_error_of_the_program_counts_more(url: str) -> None:
    """What the program raised is raised."""

    async def main() -> None:
        async with holdfast.run("r", store=url) as run:
            made = run.step("s", len, "x")
            try:
                raise ZeroDivisionError
            finally:
                made.close()

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())


def test_a_handle_looks_as_ever(url: str) -> None:
    """Its class, its signatures and its repr are those of AsyncRun; its methods are known as coroutine functions."""

    async def main() -> None:
        async with holdfast.run("r", store=url) as run:
            assert isinstance(run, holdfast.AsyncRun)
            assert repr(run) == "<AsyncRun r attempt 1 running>"
            assert asyncio.iscoroutinefunction(run.step)

    asyncio.run(main())
