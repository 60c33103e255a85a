"""Journals in which a stretch was removed, and forks from runs that change meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.engine.journal import journal
from holdfast.engine.journal.journal import read_all
from holdfast.errors import Corrupt, PointPruned, RunExists, StoreUnavailable
from holdfast.model.events import Event, Kind, covers_from
from holdfast.model.store_rows import RunRow
from holdfast.stores.port import StorePort
from holdfast.testing.relay_store import Relay
from holdfast.testing.store_rules.builders import (
    a_run,
    an_append,
    an_event,
    append,
    held,
    revision_of,
)


def covering(run: str, from_seq: int, seq: int, kind: str = Kind.PRUNED) -> Event:
    return an_event(run, seq, kind=kind, body=b'{"from_seq":%d}' % from_seq)


def replace(store: StorePort, run: str, from_seq: int, *events: Event) -> None:
    assert store.replace_events(
        run,
        fence=1,
        revision=revision_of(store, run),
        after_seq=from_seq - 1,
        upto_seq=events[-1].seq,
        events=events,
    )


def test_what_an_event_stands_for() -> None:
    """A stretch for the kinds that say so, and only itself where the body does not tell, or tells nonsense."""
    assert covers_from(covering("r", 3, 9)) == 3
    assert covers_from(covering("r", 3, 9, Kind.COMPACTED)) == 3
    assert covers_from(covering("r", 9, 9)) == 9
    assert covers_from(covering("r", 3, 9, "step.finished")) == 9
    for body in (
        b"",
        b"[]",
        b"{}",
        b'{"from_seq":"3"}',
        b'{"from_seq":10}',
        b'{"from_seq":0}',
        b"\xff",
        b"3",
    ):
        assert covers_from(an_event("r", 9, kind=Kind.PRUNED, body=body)) == 9


def test_a_covered_stretch_is_no_gap(port: StorePort) -> None:
    """From its beginning, from inside it, and across a fork; the rest is verified as ever."""
    held(port)
    append(port, an_append("r", 1, 0, 20))
    replace(port, "r", 3, covering("r", 3, 7), an_event("r", 8), covering("r", 9, 12, Kind.COMPACTED))
    held(port, "f", origin="r", origin_seq=15)
    append(port, an_append("f", 1, 15, 2))
    assert [event.seq for event in read_all(port, "r")] == [1, 2, 7, 8, *range(12, 21)]
    assert [event.seq for event in read_all(port, "r", after_seq=5)] == [7, 8, *range(12, 21)]
    assert [event.seq for event in read_all(port, "f")] == [1, 2, 7, 8, *range(12, 18)]


def test_a_stretch_that_nothing_covers_is_damage(port: StorePort) -> None:
    """An ordinary event stands only for itself, and one that covers too little leaves a gap."""
    for run, event in (("a", an_event("a", 6)), ("b", covering("b", 5, 6))):
        held(port, run)
        append(port, an_append(run, 1, 0, 9))
        replace(port, run, 4, event)
        with pytest.raises(Corrupt, match="#4"):
            read_all(port, run)


def test_a_fork_whose_point_is_gone_is_damage(port: StorePort) -> None:
    """Its history would silently end early."""
    held(port)
    append(port, an_append("r", 1, 0, 9))
    held(port, "f", origin="r", origin_seq=5)
    replace(port, "r", 3, covering("r", 3, 8))
    with pytest.raises(Corrupt, match="#5"):
        read_all(port, "f")


def test_a_stretch_replaced_between_two_pages_is_read_once(port: StorePort, monkeypatch: Any) -> None:
    """What was read before gives way to the event that stands for it."""
    monkeypatch.setattr(journal, "EVENT_PAGE_MAX", 5)
    held(port)
    append(port, an_append("r", 1, 0, 20))

    class Changing(Relay):
        def read_events(self, run: str, **kwargs: Any) -> list[Event]:
            if kwargs["after_seq"] == 5:
                replace(port, "r", 3, covering("r", 3, 9))
            return super().read_events(run, **kwargs)

    assert [event.seq for event in read_all(Changing(port), "r")] == [1, 2, *range(9, 21)]


# -- forks ----------------------------------------------------------------------------------------------------


class Restless(Relay):
    """Does something of its own right before a run is created, so many times."""

    def __init__(self, port: StorePort, times: int, act: Callable[[], object]) -> None:
        super().__init__(port)
        self.left = times
        self.act = act

    def create_run(self, row: RunRow, *, origin_revision: int = 0, synced: bool = True) -> bool:
        if self.left:
            self.left -= 1
            self.act()
        return super().create_run(row, origin_revision=origin_revision, synced=synced)


def bump(port: StorePort) -> None:
    port.swap_run("r", revision=revision_of(port, "r"), status="running", body=b"{}")


def test_a_fork_of_a_run_that_moves_looks_again(port: StorePort) -> None:
    """As often as it takes, within bounds; the point is where it was."""
    held(port)
    events = tuple(an_event("r", seq, kind=Kind.DRIFTED) for seq in range(1, 6))
    append(port, an_append("r", 1, 0)._replace(events=events))
    store = holdfast.Store(Restless(port, 3, lambda: bump(port)))
    assert store.fork("r@#3", as_="f").head == 3
    found = port.find_run("f")
    assert found is not None
    assert (found.origin, found.origin_seq) == ("r", 3)
    restless = holdfast.Store(Restless(port, 1000, lambda: bump(port)))
    with pytest.raises(StoreUnavailable):
        restless.fork("r@#3", as_="g")
    assert port.find_run("g") is None


def test_a_fork_of_a_point_that_goes_meanwhile_is_refused(port: StorePort) -> None:
    """PointPruned, and no run without a beginning."""
    held(port)
    events = tuple(an_event("r", seq, kind=Kind.DRIFTED) for seq in range(1, 6))
    append(port, an_append("r", 1, 0)._replace(events=events))
    store = holdfast.Store(Restless(port, 1, lambda: replace(port, "r", 2, covering("r", 2, 4))))
    with pytest.raises(PointPruned, match="#3"):
        store.fork("r@#3", as_="f")
    assert port.find_run("f") is None


def test_a_fork_under_a_name_that_is_taken_meanwhile_is_refused(port: StorePort) -> None:
    """RunExists, as if it had been there before."""
    held(port)
    events = tuple(an_event("r", seq, kind=Kind.DRIFTED) for seq in range(1, 6))
    append(port, an_append("r", 1, 0)._replace(events=events))
    store = holdfast.Store(Restless(port, 1, lambda: port.create_run(a_run("f"))))
    with pytest.raises(RunExists):
        store.fork("r@#3", as_="f")


def test_a_rewind_of_a_run_that_is_forked_meanwhile_keeps_its_branch(port: StorePort) -> None:
    """Under the next free name, not under one more."""
    handle = holdfast.Store(port)
    with holdfast.run("r", store=handle) as run:
        run.step("s", int, "1")
    restless = Restless(port, 2, lambda: bump(port))
    assert holdfast.Store(restless).rewind("r@1").kept == "r~1"
    assert port.find_run("r~2") is None


@pytest.fixture
def port(url: str) -> StorePort:
    """The store itself, without the handle."""
    return holdfast.store(url)._port
