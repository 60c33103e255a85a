"""Looking at all runs of a store: what is told of each, its size, and that a second look reads only what is new."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.journal.fold import View
from holdfast.core.journal.snapshots import dump
from holdfast.limits import VALUE_INLINE_BYTES_MAX
from holdfast.stores.in_memory import MemoryStore

LARGE = VALUE_INLINE_BYTES_MAX + 1000


class Crash(Exception):
    pass


def noise(size: int, _: int = 0) -> str:
    """Text that cannot be packed."""
    return os.urandom(size // 2).hex()


def same(size: int) -> str:
    """The same text each time, which cannot be packed either."""
    return "".join(str(n * n % 9973) for n in range(size // 4))


def look(store: holdfast.Store) -> dict[str, tuple[str, int | None]]:
    return {one.info.run: (one.info.status, one.size_bytes) for one in store.overview()}


def test_what_is_told_of_each_run(url: str) -> None:
    """The newest first, as ``runs`` has them, with the folded journal and the steps in doubt."""
    store = holdfast.store(url)
    with holdfast.run("done", store=store) as run:
        run.step("s", noise, 10)

    def unsure() -> None:
        raise OSError("cut")

    with pytest.raises(holdfast.StepInDoubt), holdfast.run("doubtful", store=store) as run:
        run.once("pay", unsure)
    overview = store.overview()
    assert [one.info for one in overview] == store.runs()
    assert [(one.info.run, one.in_doubt) for one in overview] == [("doubtful", 1), ("done", 0)]
    for one in overview:
        assert isinstance(one.view, View)
        assert dump(one.view) == dump(store.view(one.info.run))
        assert one.tokens is None


def test_statuses_and_prefix_choose(url: str) -> None:
    """The limit counts what is chosen."""
    store = holdfast.store(url)
    for number in range(6):
        opened = holdfast.run(f"{'ab'[number % 2]}{number}", store=store).open()
        if number < 3:
            opened.finish()
        opened.close()
    assert {one.info.run for one in store.overview(statuses=["finished"])} == {"a0", "b1", "a2"}
    assert len(store.overview(statuses=["finished"], limit=2)) == 2
    assert len(store.overview(statuses=["finished", "interrupted"], prefix="a")) == 3
    assert len(store.overview(limit=4)) == 4
    assert store.overview(limit=4) == store.overview()[:4]


# -- sizes ------------------------------------------------------------------------------------------------------


def test_a_size_is_events_and_what_they_brought(url: str) -> None:
    """Bodies, large values and states, as they are stored; the same content twice is there once."""
    store = holdfast.store(url)
    with holdfast.run("small", store=store) as run:
        run.step("s", noise, 100)
    stored = getattr(store._port, "inner", store._port)  # below the seals, if it has any
    assert store.size("small") == sum(len(event.body) for event in stored.read_events("small", limit=1000))
    with holdfast.run("large", store=store) as run:
        for number in range(3):
            run.step("s", noise, LARGE, number)
    bodies = sum(len(event.body) for event in store.events("large"))
    size = store.size("large")
    assert size is not None
    assert 0.5 * 3 * LARGE < size - bodies < 1.1 * 3 * LARGE
    with holdfast.run("same", store=store) as run:
        for number in range(3):
            run.options(key=f"k{number}").step("s", same, LARGE)
    size = store.size("same")
    assert size is not None
    assert size < 1.5 * LARGE


def test_states_count_by_what_each_one_added(url: str) -> None:
    """Ten checkpoints of a state that hardly changes take little more than one. Planted: packs of every root added up."""
    store = holdfast.store(url)
    text = noise(60_000)
    with holdfast.run("one", store=store) as run:
        run.checkpoint({"text": text, "n": 0})
    with holdfast.run("ten", store=store) as run:
        for number in range(10):
            run.checkpoint({"text": text, "n": number})
    one, ten = store.size("one"), store.size("ten")
    assert one is not None
    assert ten is not None
    assert 20_000 < one < ten < 1.2 * one


def test_what_a_fork_borrows_is_its_origins(url: str) -> None:
    """A fork is its own events, and what they brought. Planted: all that its history needs."""
    store = holdfast.store(url)
    text = noise(60_000)
    with holdfast.run("origin", store=store) as run:
        run.step("s", noise, LARGE)
        run.checkpoint({"text": text})
    store.fork("origin", as_="fork")
    assert store.size("fork") == 0
    with pytest.raises(Crash), holdfast.run("fork", store=store) as run:
        run.restore()
        run.checkpoint({"text": text, "more": 1})
        raise Crash
    fork, origin = store.size("fork"), store.size("origin")
    assert fork is not None
    assert origin is not None
    assert 0 < fork < 0.2 * origin
    assert fork == holdfast.Store(store._port).size("fork")


# -- again and again --------------------------------------------------------------------------------------------


def test_a_second_look_sees_what_is_new(url: str) -> None:
    """As a first one would: events, statuses, sizes, rewinds; and runs that came or went."""
    store = holdfast.store(url)

    def compare() -> None:
        fresh = holdfast.Store(store._port)
        assert look(store) == look(fresh)
        for one in store.overview():
            assert one.view is not None
            assert dump(one.view) == dump(fresh.view(one.info.run))

    compare()
    run = holdfast.run("a", store=store).open()
    compare()
    for number in range(3):
        run.step("s", noise, LARGE, number)
        run.checkpoint({"n": number})
        compare()
    run.close()
    compare()
    store.fork("a@2", as_="b")
    compare()
    with pytest.raises(Crash), holdfast.run("b", store=store) as other:
        other.step("t", noise, LARGE)
        raise Crash
    compare()
    store.rewind("a@2")
    compare()
    with holdfast.run("a", store=store) as again:
        again.step("u", noise, 10)
    compare()
    store.erase("a", flatten=True)
    compare()
    with holdfast.run("a", store=store) as another:
        another.step("v", noise, LARGE)
    compare()


class Counting:
    """A port that counts what is asked of it."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.read: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found

        def counted(*args: Any, **kwargs: Any) -> Any:
            answer = found(*args, **kwargs)
            self.read[name] += len(answer) if name in {"read_events", "get_blobs"} else 1
            return answer

        return counted


def test_a_second_look_reads_only_what_is_new() -> None:
    """For ``--watch``: long journals and large contents are read once."""
    port = Counting(MemoryStore("memory://counted"))
    store = holdfast.Store(port)
    run = holdfast.run("a", store=store).open()
    for number in range(50):
        run.step("s", noise, LARGE, number)
    store.overview()
    port.read.clear()
    store.overview()
    assert port.read["read_events"] == port.read["get_blobs"] == 0
    run.step("s", noise, LARGE, 50)
    store.overview()
    assert (port.read["read_events"], port.read["get_blobs"]) == (2, 1)
    run.close()


def test_what_is_damaged_does_not_hide_the_others(tmp_path: Path) -> None:
    """A journal that cannot be read has no view; a run whose content is gone has no size."""
    store = holdfast.store(tmp_path / "s.db")
    for name in ("good", "lost", "bad"):
        with holdfast.run(name, store=store) as run:
            run.step("s", noise, LARGE)
            run.checkpoint({"text": noise(60_000)})
    (lost,) = [e for e in store.events("lost") if e.kind == "checkpoint"]
    from holdfast.engine.state.blob_references import references

    store._port.delete_blobs(sorted(references(store._port, lost)), untouched_since=2e9)
    import apsw

    with apsw.Connection(str(tmp_path / "s.db")) as connection:
        connection.execute(
            "UPDATE events SET body = x'7b7d' WHERE seq = 3 AND run = (SELECT id FROM runs WHERE run = 'bad')"
        )
    for _ in range(2):
        seen = {one.info.run: one for one in store.overview()}
        assert (seen["bad"].info.status, seen["bad"].view) == ("damaged", None)
        assert (seen["lost"].info.status, seen["lost"].size_bytes) == ("finished", None)
        assert seen["good"].size_bytes
    assert [one.info.run for one in store.overview(statuses=["damaged"])] == ["bad"]
    store.close()


def test_a_rewind_between_two_looks() -> None:
    """It is seen by its event, too: a store need not count a status that stays the same as a change.

    Planted: only the revision looked at, and what was rewound was still told.
    """

    class Unchanging(Counting):
        def list_runs(self, **asked: Any) -> list[Any]:
            return [row._replace(revision=1) for row in self._port.list_runs(**asked)]

    store = holdfast.Store(Unchanging(MemoryStore("memory://unchanging")))
    with pytest.raises(Crash), holdfast.run("a", store=store) as run:
        for number in range(3):
            run.step("s", noise, 10, number)
        raise Crash
    for point in (3, 2, 1):
        store.rewind(f"a@{point}")
        (view,) = [one.view for one in store.overview() if one.info.run == "a"]
        assert view is not None
        assert view.points == point
