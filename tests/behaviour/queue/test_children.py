"""``run.child``: in this process, unless it is told to queue.

Seen before: without a worker the parent parked for ever, and nothing said that nobody would run its child.
"""

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.crossings.kills import Life, MortalWorld
from tests.crossings.world import World

import holdfast
from holdfast.engine.people.waits import InboxWait
from holdfast.errors import Misuse
from holdfast.model.store_rows import RunRow, Status

calls: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def say(word: str) -> str:
    calls.append(word)
    return word.upper()


@holdfast.agent("in-process")
def plain(run: holdfast.Run, word: str) -> str:
    return run.step("say", say, word)


@holdfast.agent("in-process-async")
async def awaited(run: holdfast.AsyncRun, word: str) -> str:
    return await run.step("say", say, word)


@holdfast.agent("in-process-broken")
def broken(run: holdfast.Run) -> None:
    calls.append("broken")
    raise ValueError("no paper")


def test_a_child_runs_here(url: str) -> None:
    """Once, as a run of its own, by the agent or by its name; no worker is needed."""
    for _ in range(2):
        with holdfast.run("parent", store=url, if_finished="reopen") as run:
            assert run.child("a", plain, "one") == "ONE"
            assert run.child("b", "in-process", word="two") == "TWO"
    assert calls == ["one", "two"]
    store = holdfast.store(url)
    assert {info.run: info.status for info in store.runs()} == dict.fromkeys(
        ["parent", "parent/a", "parent/b"], "finished"
    )


def test_children_of_an_async_run(url: str) -> None:
    """Side by side, of both kinds; a plain agent runs in a thread."""

    async def main() -> None:
        async with holdfast.run("parent", store=url) as run:
            both = await asyncio.gather(run.child("a", awaited, "one"), run.child("b", plain, "two"))
            assert [*both] == ["ONE", "TWO"]

    asyncio.run(main())
    assert sorted(calls) == ["one", "two"]


def test_a_child_that_fails(url: str) -> None:
    """ChildFailed, and it is tried again with its parent."""
    for _ in range(2):
        with pytest.raises(holdfast.ChildFailed, match="no paper"), holdfast.run("parent", store=url) as run:
            run.child("a", broken)
    assert calls == ["broken", "broken"]


@holdfast.tool(effect="once", name="order of the parent or its child", harmless=(ConnectionError,))
def order(item: str) -> str:
    calls.append(item)
    if len(calls) == 2:
        raise ConnectionError("the line is down")
    return f"{item} is on its way"


@holdfast.agent("in-process-orders")
def orders(run: holdfast.Run) -> str:
    return order("ink")


def test_a_childs_failure_leaves_the_parents_effects(url: str) -> None:
    """Parent and child make the same call, and both outcomes have the same number in their journals.

    Seen before: the child's failure ended the parent's attempt as well, and by its key and number the parent's own order was
    forgotten, and made again.
    """
    for _ in range(2):
        with suppress(holdfast.ChildFailed), holdfast.run("parent", store=url) as run:
            order("ink")
            run.child("c", orders)
    assert calls == ["ink", "ink", "ink"]  # the parent's, the child's that failed, and that one again
    assert holdfast.store(url).get("parent").status == "finished"


def test_an_agent_that_is_not_here(url: str) -> None:
    """Only its name is known: refused, with what to do. So is an async agent in a plain run."""
    with holdfast.run("parent", store=url) as run:
        with pytest.raises(Misuse, match="queue=True"):
            run.child("a", "nobody")
        with pytest.raises(Misuse, match="async"):
            run.child("b", awaited, "one")


def test_queued_with_no_worker_alive(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It says so; with a worker that serves the agent it does not."""
    with (
        caplog.at_level(logging.WARNING, "holdfast"),
        pytest.raises(holdfast.AwaitingChild, match="no worker is alive that serves agent 'in-process'"),
        holdfast.run("parent", store=url) as run,
    ):
        run.child("a", plain, "one", queue=True)
    assert [one for one in caplog.messages if "no worker is alive" in one]
    caplog.clear()
    with holdfast.worker(plain, store=url) as worker, holdfast.run("parent", store=url) as run:
        assert run.child("a", plain, "one", queue=True, wait_s=30) == "ONE"
        assert run.child("b", plain, "two", queue=True, wait_s=30) == "TWO"
        assert worker.wait_idle(30)
    assert not [one for one in caplog.messages if "no worker is alive" in one]


def test_a_child_that_was_queued_before_is_left_to_the_queue(url: str) -> None:
    """The program changed from queue=True to running here: the parent waits for the worker's result."""
    with pytest.raises(holdfast.AwaitingChild), holdfast.run("parent", store=url) as run:
        run.child("a", plain, "one", queue=True)
    with pytest.raises(holdfast.AwaitingChild), holdfast.run("parent", store=url) as run:
        run.child("a", plain, "one")
    with holdfast.worker(plain, store=url) as worker:
        assert worker.wait_idle(30)
    with holdfast.run("parent", store=url) as run:
        assert run.child("a", plain, "one") == "ONE"
    assert calls == ["one"]


def test_a_child_that_another_process_holds_runs_here_when_it_lets_go(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose lease was granted to a process that never heard of it: the answer was lost on its way.

    Seen before: the child was put into the queue, where no worker was, and its parent waited for ever.
    """
    port = holdfast.store(url)._port
    port.create_run(RunRow("parent/c", "b" * 32, time.time(), Status.QUEUED, b"{}", agent="in-process"))
    lease = port.acquire("parent/c", at=time.time(), lease_s=3600.0).lease
    pauses: list[float] = []

    async def pause(self: InboxWait, left_s: float) -> None:
        pauses.append(left_s)
        port.release("parent/c", fence=lease.fence)

    monkeypatch.setattr(InboxWait, "pause", pause)
    with holdfast.run("parent", store=url) as run:
        assert run.child("c", plain, "one", wait_s=60) == "ONE"
    assert len(pauses) == 1
    assert calls == ["one"]


def test_a_child_that_was_killed_is_run_here_again(tmp_path: Path) -> None:
    """At any write of its first attempt: nothing queued it and no worker serves it, so its parent runs it.

    Seen before: the parent waited for a worker, for ever, because the lease of the child still named the dead process.
    """

    def parent(world: World, _: int) -> Any:
        given: list[Any] = []
        with holdfast.run("parent", store=world.store) as run:
            given.append(run.child("kid", plain, "hello"))
        return given

    url = f"memory://{uuid4().hex}"
    first = MortalWorld(url, tmp_path)
    assert first.killed(parent, 0, None, "before")
    for at in range(first.life.writes):
        for when in ("before", "after"):
            world = MortalWorld(f"{url}-{at}-{when}", tmp_path)
            assert world.killed(parent, 0, at, when) is None
            world._restart(Life())
            assert parent(world, 0) == ["HELLO"], (at, when)
            world.store.close()
