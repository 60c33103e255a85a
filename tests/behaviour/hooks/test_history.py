"""What forks, rewinds, prunes, moves, handoffs and erasures do with notices: every operation of ``tests/crossings``."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.crossings.cells import begun, crossed_by, cut, seqs_of
from tests.crossings.operations import OPERATIONS
from tests.crossings.programs import PROGRAMS

import holdfast
from holdfast import Notice
from holdfast.core.hooks.notices import first_seq
from holdfast.model.store_rows import DELIVERED, DELIVERIES, NOTICED
from holdfast.stores.url import open_store

(QUESTIONS,) = [program for program in PROGRAMS if program.what == "questions"]


def own_events(store: holdfast.Store, kind: str) -> Counter[str]:
    """How many events of this kind each run has recorded itself, in this store."""
    found: Counter[str] = Counter()
    for info in store.runs(limit=1_000):
        row = store._port.find_run(info.run)
        assert row is not None
        for event in store._port.read_events(row.run, after_seq=first_seq(row), limit=2_000):
            found[row.run] += event.kind == kind and event.at >= row.created_at
    return +found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_run_reports_what_it_records_itself(operation: str, tmp_path: Path) -> None:
    """No branch repeats the notices of another, none is missing, and each comes once.

    Planted: events from another store counted as own ones, and a moved and a copied run repeat their past.
    """
    apply, begins, works, _ = OPERATIONS[operation]
    program = crossed_by(QUESTIONS, OPERATIONS[operation])
    seqs = cut(seqs_of(program, tmp_path, begins), operation, operation)
    for seq in [*{seqs[0], seqs[len(seqs) // 2], seqs[-1]}]:
        got: list[Notice] = []
        holdfast.hook(got.append)
        world = begun(program, tmp_path / str(seq), begins)
        branches = apply(world, seq)
        stores = {store.url: store for store, _ in branches}
        for store, run in branches:
            world.enter(run, program.body, store, works)
        assert max(Counter(one.id for one in got).values()) == 1
        if "prune" in operation:
            continue  # the events that would say it are gone
        asked = {url: own_events(store, "question.asked") for url, store in stores.items()}
        told: dict[str, Counter[str]] = {url: Counter() for url in stores}
        for one in got:
            if one.what == "question" and one.store in told and one.run in asked[one.store]:
                told[one.store][one.run] += 1
        assert told == asked, (seq, [(one.run, one.what, one.at) for one in got])


def finished(world_url: str, run: str) -> None:
    with holdfast.run(run, store=world_url):
        pass


def test_an_import_reports_nothing_of_its_past(url: str, tmp_path: Path) -> None:
    """Neither when it comes in nor when its program goes on; its own end is reported."""
    got: list[Notice] = []
    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("a", store=url) as run:
        run.ask("Well?")
    store, other = holdfast.store(url), holdfast.store(f"memory://{tmp_path.name}")
    store.export("a", tmp_path / "a.holdfast", move=True)
    other.hooks.add("http://127.0.0.1:9/")
    other.import_(tmp_path / "a.holdfast")
    assert other.deliver_hooks().found == 0
    assert other.hooks.log() == []
    other.answer("a", "yes")
    with holdfast.run("a", store=other, hooks=[got.append]) as run:
        run.ask("Well?")
    assert [one.what for one in got] == ["finished"]
    other.close()


def test_a_fork_repeats_nothing_of_its_origin(url: str, tmp_path: Path) -> None:
    """Not even when its origin is erased, and it gets its own copy of the history.

    Planted: the time of the fork not compared with that of the event, and the flattened fork repeats it.
    """
    store = holdfast.store(url)
    store.hooks.add("http://127.0.0.1:9/", timeout_s=1.0)
    finished(url, "a")
    store.fork("a", as_="f")
    store.deliver_hooks()
    assert [one.run for one in store.hooks.log()] == ["a"]
    store.erase("a", flatten=True)
    for record in open_store(url).scan_records(NOTICED, prefix="f@", limit=9):  # as if no process had looked
        open_store(url).delete_record(NOTICED, record.key, revision=record.revision)
    store.deliver_hooks()
    assert store.hooks.log() == []


def test_hooks_do_not_travel(url: str, tmp_path: Path) -> None:
    """A copy has the runs. A store that somebody sends starts no command and sends no request."""
    store, other = holdfast.store(url), holdfast.store(f"memory://{tmp_path.name}")
    store.hooks.add(["touch", str(tmp_path / "ran")], on=["failed"])
    finished(url, "a")
    store.copy(other)
    assert other.get("a").status in {"finished", "sealed"}
    assert other.hooks.list() == []
    assert other.hooks.log() == []
    other.close()


def test_an_erased_run_leaves_no_delivery(url: str) -> None:
    """Neither waiting nor delivered; and a run of the same name reports anew."""
    got: list[Any] = []
    holdfast.hook(got.append)
    store = holdfast.store(url)
    store.hooks.add("http://127.0.0.1:9/", timeout_s=1.0)
    finished(url, "a")
    assert {one.state for one in store.hooks.log("a")} == {"waiting", "delivered"}
    store.erase("a")
    port = open_store(url)
    left = [
        one.key for space in (NOTICED, DELIVERIES, DELIVERED) for one in port.scan_records(space, limit=99)
    ]
    assert left == []
    finished(url, "a")
    assert [one.what for one in got] == ["finished", "finished"]
    assert len({one.id for one in got}) == 2


def test_a_handed_over_run_asks_no_more(url: str) -> None:
    """Its taker asks itself, under its own name."""
    got: list[Notice] = []
    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("a", store=url) as run:
        run.ask("Well?")
    store = holdfast.store(url)
    store.hooks.add("http://127.0.0.1:9/", timeout_s=1.0)
    document = store.handoff("a", to="t", seal=True)
    store.accept(document, as_="t")
    store.deliver_hooks()
    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("t", store=url, hooks=[got.append]) as run:
        run.ask("Well?")
    assert [(one.run, one.what) for one in got] == [("t", "question")]
    assert {one.run for one in store.hooks.log() if one.hook == "h1"} == {"t"}
