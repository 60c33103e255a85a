"""A run inside a run: where it lives, and whose it is. It lies in its parent's store unless it names another one.

Seen before: ``holdfast.run("kid")`` inside a run with ``store=`` opened the default store, the nearest ``.holdfast`` above, and was
no child at all. Planted once, and caught by all tests here but the last two.
"""

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import holdfast


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What pulls a run without ``store=`` away: a variable in the environment, and a store right here."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    holdfast.store().close()
    url = f"sqlite:///{tmp_path}/environment.db"
    monkeypatch.setenv("HOLDFAST_URL", url)
    return url


@holdfast.agent("nested-counter")
def counter(run: holdfast.Run, upto: int) -> int:
    return run.step("count", sum, range(upto + 1))


@holdfast.agent("nested-async-counter")
async def async_counter(run: holdfast.AsyncRun, upto: int) -> int:
    return await run.step("count", sum, range(upto + 1))


def runs_in(place: str) -> list[str]:
    return sorted(info.run for info in holdfast.store(place).runs())


def children_of(url: str) -> list[Any]:
    return [event for event in holdfast.store(url).events("parent") if event.name == "child"]


def test_a_nested_run_lies_in_its_parents_store(url: str, elsewhere: str) -> None:
    """Whatever the environment and the directory say; also a grandchild, and again in the next attempt."""
    for _ in range(2):
        with holdfast.run("parent", store=url, if_finished="reopen"), holdfast.run("kid") as kid:
            assert kid.id == "parent/kid"
            with holdfast.run("grandkid") as grandkid:
                assert grandkid.id == "parent/kid/grandkid"
    assert runs_in(url) == ["parent", "parent/kid", "parent/kid/grandkid"]
    assert runs_in(elsewhere) == []
    assert len(children_of(url)) == 1


def test_the_same_awaited(url: str, elsewhere: str) -> None:
    """``async with``, side by side."""

    found: list[str] = []

    async def kid(name: str) -> None:
        async with holdfast.run(name) as run:
            found.append(run.id)

    async def main() -> None:
        async with holdfast.run("parent", store=url):
            await asyncio.gather(kid("a"), kid("b"))

    asyncio.run(main())
    assert sorted(found) == ["parent/a", "parent/b"]
    assert runs_in(url) == ["parent", "parent/a", "parent/b"]
    assert runs_in(elsewhere) == []


def test_agents_inside_a_run(url: str, elsewhere: str) -> None:
    """``agent.run`` is a child; what ``agent.submit`` queues is for a worker of the same store."""

    async def main() -> None:
        async with holdfast.run("other", store=url):
            assert await async_counter.run("later", upto=4) == 10

    with holdfast.run("parent", store=url):
        assert counter.run("now", upto=3) == 6
        assert counter.submit("queued", upto=3)
    asyncio.run(main())
    assert runs_in(url) == ["other", "other/later", "parent", "parent/now", "queued"]
    assert runs_in(elsewhere) == []


def test_a_child_that_a_worker_runs(url: str, elsewhere: str) -> None:
    """``run.child`` submits to the parent's store; a worker that is started inside of the run works there."""
    with holdfast.run("parent", store=url) as run, holdfast.worker(counter) as worker:
        assert run.child("kid", counter, upto=3, queue=True, wait_s=30) == 6
        assert worker.wait_idle(30)
    assert runs_in(url) == ["parent", "parent/kid"]
    assert runs_in(elsewhere) == []


def test_a_bound_thread_is_in_the_run(url: str, elsewhere: str) -> None:
    """A context does not reach a new thread by itself: ``run.bind`` carries it there."""
    found: list[str] = []

    def work() -> None:
        with holdfast.run("kid") as kid:
            found.append(kid.id)

    with holdfast.run("parent", store=url) as run:
        thread = threading.Thread(target=run.bind(work))
        thread.start()
        thread.join(60)
    assert found == ["parent/kid"]
    assert runs_in(elsewhere) == []


def test_another_store_is_another_run(
    url: str, elsewhere: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Named on purpose it is allowed, it is no child, and the log says so once."""
    other = f"sqlite:///{tmp_path}/other.db"
    with caplog.at_level(logging.WARNING, "holdfast"), holdfast.run("parent", store=url):
        for _ in range(3):
            with holdfast.run("kid", store=other) as kid:
                assert kid.id == "kid"
    assert runs_in(other) == ["kid"]
    assert runs_in(url) == ["parent"]
    assert children_of(url) == []
    told = [record.getMessage() for record in caplog.records if "no child" in record.getMessage()]
    assert len(told) == 1
    assert "run kid is entered inside run parent and names another store" in told[0]


def test_behind_the_run_the_environment_counts_again(url: str, elsewhere: str) -> None:
    """The store of a run that was left is nobody's default."""
    with holdfast.run("parent", store=url):
        pass
    with holdfast.run("kid") as kid:
        assert kid.id == "kid"
    assert runs_in(elsewhere) == ["kid"]
