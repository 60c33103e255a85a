"""Snapshots: a cache of the folded view that changes nothing but the time to enter."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

import pytest

import holdfast
from holdfast.engine.journal import load_view
from holdfast.model.events import Kind
from holdfast.stores.url import open_store
from holdfast.testing.store_rules.builders import delete_run

PAGE = 50

calls: list[object] = []


class Crash(Exception):
    pass


def note(value: object) -> object:
    calls.append(value)
    return value


def fail(value: str) -> None:
    raise LookupError(value)


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    calls.clear()
    monkeypatch.setattr("holdfast.engine.journal.load_view.SNAPSHOT_EVENTS_MIN", 10)
    monkeypatch.setattr("holdfast.engine.journal.load_view.PAGE_EVENTS", 7)
    monkeypatch.setattr("holdfast.engine.journal.load_view.SNAPSHOT_CHUNK_BYTES", 200)


class Counting:
    """A store that counts the calls of each of its verbs."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._port, name)


def long_run(
    monkeypatch: pytest.MonkeyPatch, record: Callable[[holdfast.Run], object], *, is_cached: bool = True
) -> tuple[Counting, holdfast.Store]:
    """A run that has been recorded and has a snapshot if it is long, in a store that counts."""
    monkeypatch.setattr("holdfast.engine.journal.load_view.SNAPSHOT_EVENTS_MIN", 300)
    monkeypatch.setattr("holdfast.engine.journal.load_view.PAGE_EVENTS", PAGE)
    monkeypatch.setattr("holdfast.engine.journal.load_view.SNAPSHOT_CHUNK_BYTES", 100_000)
    port = Counting(open_store(f"memory://{uuid4().hex}"))
    store = holdfast.Store(port)
    for _ in range(2):
        with pytest.raises(Crash), holdfast.run("a", store=store) as run:
            record(run)
            raise Crash
    assert (port.get_record(load_view.SPACE, "a@") is not None) == is_cached
    return port, store


def many(run: holdfast.Run, steps: int) -> None:
    for n in range(steps):
        run.step("s", note, n)


def functions_called(act: Callable[[], object]) -> list[str]:
    """The functions of Python that it calls, without those of this file."""
    called: list[str] = []

    def seen(frame: FrameType, what: str, _: object) -> None:
        if what == "call" and frame.f_code.co_filename != __file__:
            called.append(frame.f_code.co_name)

    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(None)
    return called


def program(run: holdfast.Run, steps: int) -> list[Any]:
    got: list[Any] = [run.step("s", note, n) for n in range(steps)]
    try:
        run.step("f", fail, "gone")
    except LookupError as error:
        got.append(str(error))
    run.think("hm")
    with run.scope("x"):
        got.append(run.step("outer", lambda: run.step("inner", note, "in")))
    return got


def attempt(url: str, steps: int) -> list[Any]:
    got: list[Any] = []
    try:
        with holdfast.run("a", store=url) as run:
            got = program(run, steps)
            raise Crash
    except Crash:
        pass
    return got


def test_a_run_behind_a_snapshot_is_the_same_run(url: str) -> None:
    """Values, failures, marks and nested calls are answered from pages as they were from the journal."""
    first = attempt(url, 20)
    for _ in range(3):
        assert attempt(url, 20) == first
    assert len(calls) == 21
    assert attempt(url, 25)[20:25] == [20, 21, 22, 23, 24]
    port = holdfast.store(url)._port
    assert port.get_record(load_view.SPACE, "a@") is not None


def test_old_chunks_are_forgotten(url: str) -> None:
    """A newer snapshot replaces the older one; its chunks do not pile up."""
    for steps in (20, 40, 60, 80):
        attempt(url, steps)
    port = holdfast.store(url)._port
    heads = {r.key.split("@")[1].split(".")[0] for r in port.scan_records(load_view.SPACE, limit=1000)}
    assert len(heads - {""}) == 1


def test_a_damaged_snapshot_is_ignored(url: str) -> None:
    """A flipped bit in the cache costs a fold, never a wrong value."""
    first = attempt(url, 20)
    attempt(url, 20)
    port = holdfast.store(url)._port
    for record in port.scan_records(load_view.SPACE, limit=1000):
        if "." in record.key:
            body = bytes([record.body[0] ^ 1]) + record.body[1:]
            port.put_record(record.space, record.key, body, revision=record.revision)
    assert attempt(url, 20) == first
    assert len(calls) == 21


def test_a_snapshot_of_another_fold_is_ignored(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of the fold folds again from the journal."""
    first = attempt(url, 20)
    attempt(url, 20)
    monkeypatch.setattr("holdfast.core.journal.snapshots.FOLD_VERSION", 99)
    assert attempt(url, 20) == first


def test_an_effect_in_doubt_survives_the_snapshot(url: str) -> None:
    """What was open when the snapshot was made is still in doubt behind it."""

    def cut() -> None:
        calls.append("paid")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), holdfast.run("a", store=url) as run:
        program(run, 20)
        run.once("pay", cut)
    for _ in range(2):
        with pytest.raises(holdfast.StepInDoubt), holdfast.run("a", store=url) as run:
            program(run, 20)
            run.once("pay", cut)
    assert calls.count("paid") == 1


def test_drift_is_found_behind_a_snapshot(url: str) -> None:
    """The points of recorded calls are read from the journal when they are needed."""
    with pytest.raises(Crash), holdfast.run("a", store=url) as run:
        program(run, 20)
        run.once("pay", note, "Ada")
        raise Crash
    attempt(url, 20)
    with pytest.raises(holdfast.Diverged), holdfast.run("a", store=url) as run:
        program(run, 20)
        run.once("pay", note, "Bob")


def test_entering_reads_pages_not_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entering a long run issues a query per page, not per step."""
    monkeypatch.undo()
    port = Counting(open_store(tmp_path / "s.db"))
    store = holdfast.Store(port)
    for _ in range(2):
        port.calls.clear()
        with pytest.raises(Crash), holdfast.run("a", store=store) as run:
            entered = sum(port.calls.values())
            for n in range(1200):
                run.step("s", note, n)
            raise Crash
    assert entered < 20
    assert port.calls["append"] == 2
    assert sum(event.kind == Kind.STEP_FINISHED for event in store.events("a")) == 1200


def test_replay_behind_a_snapshot_reads_each_page_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replayed step asks for its outcome more than once. It read a page of the journal each time."""
    pages = 400 // PAGE + 2  # two for the ends: the events of the attempts, and the page that is cut
    port, store = long_run(monkeypatch, lambda run: [run.step("s", note, n) for n in range(200)])
    with pytest.raises(Crash), holdfast.run("a", store=store) as run:
        port.calls.clear()
        for n in range(200):
            assert run.step("s", note, n) == n
        raise Crash
    assert port.calls["read_events"] <= pages


def test_a_step_whose_page_was_read_is_answered_as_one_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a snapshot, each step was answered on the long way, by 38 functions, though its page was there."""
    called = {}
    for steps in (100, 300):  # the first are too few for a snapshot
        _, store = long_run(monkeypatch, partial(many, steps=steps), is_cached=steps == 300)
        with pytest.raises(Crash), holdfast.run("a", store=store) as run:
            for n in range(10):
                run.step("s", note, n)
            called[steps] = functions_called(partial(run.step, "s", note, 10))
            raise Crash
    assert called[300] == [*called[100], "find_read"]


def test_tasks_that_replay_far_apart_do_not_displace_each_others_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One task recorded all of its steps before another did, and now they take turns."""
    halves = range(100), range(100, 200)
    port, store = long_run(monkeypatch, lambda run: [run.step("s", note, n) for n in range(200)])
    with pytest.raises(Crash), holdfast.run("a", store=store) as run:
        port.calls.clear()
        for pair in zip(*halves, strict=True):
            for n in pair:
                assert run.step("s", note, n) == n
        raise Crash
    assert port.calls["read_events"] <= 400 // PAGE + 3


def test_an_async_replay_behind_a_snapshot_reads_each_page_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for an async run, whose store calls are made in threads."""

    async def program() -> None:
        async with holdfast.run("a", store=store) as run:
            port.calls.clear()
            for n in range(200):
                assert await run.step("s", note, n) == n
            raise Crash

    port, store = long_run(monkeypatch, lambda run: [run.step("s", note, n) for n in range(200)])
    with pytest.raises(Crash):
        asyncio.run(program())
    assert port.calls["read_events"] <= 400 // PAGE + 2


@pytest.mark.parametrize("steps", [2, 40])
def test_the_snapshot_of_a_deleted_run_is_not_that_of_its_successor(url: str, steps: int) -> None:
    """A process dies after it has deleted a run, before its records: a new run of that name starts empty."""
    attempt(url, 20)
    attempt(url, 20)
    port = holdfast.store(url)._port
    assert port.get_record(load_view.SPACE, "a@") is not None
    fence = port.acquire("a", at=0.0, lease_s=60.0).lease.fence
    row = port.find_run("a")
    assert row is not None
    assert delete_run(port, "a", fence=fence, revision=row.revision)
    calls.clear()
    first = attempt(url, steps)
    assert len(calls) == steps + 1
    assert attempt(url, steps) == first
    assert len(calls) == steps + 1


def test_a_snapshot_that_replaces_one_of_the_same_event_keeps_its_chunks(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version writes it anew while the run has not moved: the next process can use it."""
    attempt(url, 20)
    port = holdfast.store(url)._port
    with monkeypatch.context() as other_version:
        other_version.setattr("holdfast.core.journal.snapshots.FOLD_VERSION", 99)
        load_view.load(port, "a")
        assert load_view._usable_snapshot(port, "a") is None
    load_view.load(port, "a")
    assert load_view._usable_snapshot(port, "a") is not None
