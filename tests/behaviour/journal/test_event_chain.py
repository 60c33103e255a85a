"""The chain of a journal: an event that is intact and does not belong there is named, and a sound journal never alarms.

A journal is doctored through the port, which keeps what it is given, so that every store is tried alike.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast
from holdfast.engine.journal.journal import chain_of, read_own
from holdfast.model.events import Event, link, relinked
from holdfast.model.retention import Keep, Retention
from holdfast.stores.port import StorePort

HARD = Retention(reasoning=Keep(last=0), checkpoints=Keep(last=1), compact_events=0)


class Left(Exception):
    """The program stops here, and is to go on."""


def work(url: str, run: str = "r", steps: int = 6) -> None:
    """A run that is not over: steps, thoughts and states."""
    with pytest.raises(Left), holdfast.run(run, store=url) as at:
        at.restore(None)
        for number in range(steps):
            at.step(f"s{number}", str, number)
            at.think(f"thought {number}")
            at.checkpoint({"n": number})
        raise Left


def go_on(url: str, run: str = "r") -> None:
    """One more attempt at it: nothing alarms, and what it adds follows what is there."""
    with pytest.raises(Left), holdfast.run(run, store=url) as at:
        at.restore(None)
        at.step(f"more-{uuid4().hex[:6]}", str, 1)
        raise Left


def failures(store: holdfast.Store) -> list[str]:
    return [finding.text for finding in store.examine() if finding.verdict == "failure"]


def own(store: holdfast.Store, run: str) -> list[Event]:
    """The run's own events as they are stored."""
    return store._port.read_events(run, after_seq=store._port.find_run(run).origin_seq, limit=1000)  # type: ignore[union-attr]


def check(store: holdfast.Store, *runs: str) -> None:
    """Every journal holds together, from each fork's origin on, and every event of it is chained."""
    assert failures(store) == []
    for run in runs:
        store.events(run, whole=True)
        assert all(event.chain for event in own(store, run)), run


def put(port: StorePort, run: str, events: Sequence[Event]) -> None:
    """Put these in the place of the run's events from the first to the last of them."""
    grant = port.acquire(run, at=0.0, lease_s=1.0)
    row = port.find_run(run)
    assert row is not None
    assert port.replace_events(
        run,
        fence=grant.lease.fence,
        revision=row.revision,
        after_seq=events[0].seq - 1,
        upto_seq=events[-1].seq,
        events=list(events),
    )
    port.release(run, fence=grant.lease.fence)


def another_copy(store: holdfast.Store, run: str, from_seq: int) -> list[Event]:
    """The journal as another copy of the same run has it, which went on differently from there."""
    row = store._port.find_run(run)
    assert row is not None
    events = own(store, run)
    changed = [event._replace(at=event.at + 1) if event.seq == from_seq else event for event in events]
    return list(relinked(run, row.birth, changed, 0))


def refused(url: str, store: holdfast.Store, seq: int, run: str = "r") -> None:
    """Whoever reads it is told which event it is, and so is whoever looks at the store."""
    for read in (lambda: store.events(run, whole=True), lambda: go_on(url, run)):
        with pytest.raises(holdfast.Corrupt, match=rf"event #{seq} of run {run} "):
            read()
    assert f"event {seq} of run {run} does not follow the one before it" in failures(store)


# -- doctored ---------------------------------------------------------------------------------------------------


def test_an_event_of_another_copy_is_named(url: str) -> None:
    """It is intact, of this run and of this place; and another one stood there. If that is where the copies went apart,
    it follows what stands before it: then the one behind it does not.

    Planted: without the chain it is read as if it were the run's own.
    """
    work(url)
    store = holdfast.store(url)
    whole = own(store, "r")
    put(store._port, "r", [another_copy(store, "r", 3)[4]])
    refused(url, store, 5)
    put(store._port, "r", [whole[4]])
    check(store, "r")
    put(store._port, "r", [another_copy(store, "r", 5)[4]])
    refused(url, store, 6)


def test_the_tail_of_another_copy_is_named(url: str) -> None:
    """All of it fits together, and to nothing before it."""
    work(url)
    store = holdfast.store(url)
    other = another_copy(store, "r", 5)
    put(store._port, "r", other[8:])
    refused(url, store, 9)


def test_two_events_that_changed_places_between_two_copies_are_named(url: str) -> None:
    """In both of them."""
    work(url)
    store = holdfast.store(url)
    whole, other = own(store, "r"), another_copy(store, "r", 3)
    put(store._port, "r", [other[6], other[7]])
    refused(url, store, 7)
    put(store._port, "r", [*other[:6], *whole[6:8], *other[8:]])
    refused(url, store, 7)


def test_an_event_without_a_chain_is_named(url: str) -> None:
    """Of an earlier format, behind one of this: it was written by somebody who knew nothing of what stood there."""
    work(url)
    store = holdfast.store(url)
    put(store._port, "r", [own(store, "r")[6]._replace(chain=0)])
    refused(url, store, 7)


def test_the_first_event_is_chained_to_its_run(url: str) -> None:
    """The journal of another run of the same name is another journal."""
    work(url)
    store = holdfast.store(url)
    put(store._port, "r", list(relinked("r", "another birth", own(store, "r"), 0)))
    refused(url, store, 1)


def test_a_fork_is_chained_to_where_it_was_forked(url: str) -> None:
    """If the origin's event is another one, the fork's history is, too."""
    work(url)
    store = holdfast.store(url)
    store.fork("r@#9", as_="f")
    go_on(url, "f")
    first = own(store, "f")[0]
    put(store._port, "f", [first._replace(chain=link(own(store, "r")[3].chain, first.crc))])
    with pytest.raises(holdfast.Corrupt, match=r"event #10 of run f "):
        store.events("f", whole=True)
    assert "event 10 of run f does not follow the one before it" in failures(store)


def test_an_exported_journal_is_looked_through(url: str, tmp_path: Path) -> None:
    """What does not hold together is not written down as if it did."""
    work(url)
    store = holdfast.store(url)
    put(store._port, "r", [another_copy(store, "r", 5)[4]])
    with pytest.raises(holdfast.Corrupt, match="event #6 of run r"):
        store.export("r", tmp_path / "r.holdfast")


# -- sound ------------------------------------------------------------------------------------------------------


def test_a_run_and_its_attempts_are_one_chain(url: str) -> None:
    """From its birth, over every attempt, with and without a snapshot in between."""
    work(url)
    for _ in range(3):
        go_on(url)
    check(holdfast.store(url), "r")


def test_a_pruned_journal_keeps_its_anchors(url: str) -> None:
    """Hollowed and compacted events have the chain of what they replaced, and what follows still fits; twice, too."""
    work(url)
    store = holdfast.store(url)
    head = own(store, "r")[-1].chain
    store.prune("r", policy=Retention(reasoning=Keep(last=1)))
    assert [event for event in own(store, "r") if event.chain < 0]
    check(store, "r")
    go_on(url)
    store.prune("r", policy=HARD)
    check(store, "r")
    go_on(url)
    store.prune("r", policy=HARD)
    go_on(url)
    check(store, "r")
    assert head in {abs(event.chain) for event in own(store, "r")} or own(store, "r")[0].seq > 1


def test_forks_of_forks_and_rewinds_are_chained(url: str) -> None:
    """Also a fork that nothing was added to before it was forked itself."""
    work(url)
    store = holdfast.store(url)
    store.fork("r@#9", as_="f")
    store.fork("f@#9", as_="g")
    for run in ("g", "f"):
        go_on(url, run)
    rewound = store.rewind("r@#7")
    go_on(url, "r")
    go_on(url, rewound.kept)
    store.fork("g@#11", as_="h")
    go_on(url, "h")
    check(store, "r", "f", "g", "h", rewound.kept)


def test_a_flattened_fork_keeps_its_own_events(url: str) -> None:
    """What it borrowed is its own then; its head is chained as it was."""
    work(url)
    store = holdfast.store(url)
    store.fork("r@#9", as_="f")
    store.fork("f@#9", as_="idle")
    go_on(url, "f")
    before = own(store, "f")
    store.erase("r", flatten=True)
    assert own(store, "f")[9:] == before
    check(store, "f")
    for run in ("f", "idle"):
        go_on(url, run)
    check(store, "f")
    assert failures(store) == []


Move = Callable[[holdfast.Store, holdfast.Store, Path], str]


def by_import(store: holdfast.Store, target: holdfast.Store, place: Path) -> str:
    store.export("f", place)
    return target.import_(place).run


def by_import_as(store: holdfast.Store, target: holdfast.Store, place: Path) -> str:
    store.export("f", place)
    return target.import_(place, as_="other").run


def by_moving(store: holdfast.Store, target: holdfast.Store, place: Path) -> str:
    store.export("f", place, move=True)
    return target.import_(place).run


def by_moving_as(store: holdfast.Store, target: holdfast.Store, place: Path) -> str:
    store.export("f", place, move=True)
    return target.import_(place, as_="other").run


def by_import_beside(store: holdfast.Store, target: holdfast.Store, place: Path) -> str:
    """The origin's name is taken there: it gets another one, and the fork of it keeps its own."""
    work(target.url, "r", 1)
    return by_import_as(store, target, place)


def by_copying(store: holdfast.Store, target: holdfast.Store, place: Path) -> str:
    del place
    store.copy(target, move=True)
    return "f"


@pytest.mark.parametrize(
    "move", [by_import, by_import_as, by_moving, by_moving_as, by_import_beside, by_copying]
)
def test_a_run_that_moves_goes_on_in_one_chain(url: str, move: Move, tmp_path: Path) -> None:
    """Under its own name byte for byte; under another, chained anew. A pruned fork of a fork, with its anchors."""
    work(url)
    store = holdfast.store(url)
    store.fork("r@#9", as_="f")
    go_on(url, "f")
    store.prune("f", policy=Retention(reasoning=Keep(last=0)))
    store.prune("r", policy=Retention(reasoning=Keep(last=0)))
    target = holdfast.store(f"memory://{uuid4().hex}")
    expected = [event.body for event in store.events("f", whole=True)]
    run = move(store, target, tmp_path / "f.holdfast")
    found = [event.body for event in target.events(run, whole=True)]
    assert found[: len(expected)] == expected
    go_on(target.url, run)
    names = [row.run for row in chain_of(target._port, run)]
    check(target, *names)


def test_a_handed_over_run_is_chained(url: str) -> None:
    """The giver's seal, the taker's first events, and what it does then."""
    work(url)
    store = holdfast.store(url)
    document = store.handoff("r", "somebody", seal=True)
    taken = store.accept(document, as_="t")
    go_on(url, taken.run)
    store.unseal("r")
    go_on(url)
    check(store, "r", "t")


def test_children_are_chained_each_by_itself(url: str) -> None:
    """Another run, another journal."""
    with holdfast.run("parent", store=url) as run:
        run.step("a", str, 1)
        with holdfast.run("child", store=url) as child:
            child.step("b", str, 1)
    check(holdfast.store(url), "parent", "parent/child")


def test_a_page_in_the_middle_is_compared_from_its_second_event_on(url: str) -> None:
    """What stands before the first is not known, and not judged."""
    work(url)
    store = holdfast.store(url)
    put(store._port, "r", [another_copy(store, "r", 5)[4]])
    with pytest.raises(holdfast.Corrupt):
        read_own(store._port, "r", 4, None)
    assert read_own(store._port, "r", 5, None)
    assert len(read_own(store._port, "r", 4, 5)) == 1
