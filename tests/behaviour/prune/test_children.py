"""Erase and prune of a run with children.

Seen before: ``erase`` left the children behind, and said that the files hold nothing of the run.
"""

from collections.abc import Callable
from typing import Any

import pytest
from tests.behaviour.lineage.test_children import Cutting, Killed, editor, enter, made

import holdfast
from holdfast.errors import RunHasForks, RunHeld
from holdfast.stores.url import open_store
from holdfast.testing.store_rules.builders import delete_run

ALL = ["talk", "talk/first", "talk/second", "talk/second/deep"]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    made.clear()


def runs_in(url: str) -> list[str]:
    return sorted(info.run for info in holdfast.store(url).runs())


def long_editor(run: holdfast.Run) -> Any:
    """Children whose results lie in blobs."""
    with holdfast.run("kid") as kid, holdfast.run("deep") as deep:
        deep.step("write", lambda: "secret" * 10_000)
        deep.finish("x" * 70_000)
        kid.finish(None)


def test_erase_takes_the_children(url: str) -> None:
    """Their events and blobs are gone, and it says so."""
    enter(url, "talk", long_editor)
    enter(url, "other", lambda run: run.step("one", len, "a"))
    port = open_store(url)
    assert port.scan_blobs(limit=10)
    gone = holdfast.store(url).erase("talk")
    assert gone.children == ("talk/kid", "talk/kid/deep")
    assert runs_in(url) == ["other"]
    assert gone.blobs == 2
    assert not port.scan_blobs(limit=10)


def test_erase_waits_for_nobody(url: str) -> None:
    """A descendant that a process holds: refused, and all are there."""
    enter(url, "talk", editor)
    port, store = open_store(url), holdfast.store(url)
    grant = port.acquire("talk/second/deep", at=store.now(), lease_s=60)
    with pytest.raises(RunHeld):
        store.erase("talk")
    port.release("talk/second/deep", fence=grant.lease.fence)
    assert runs_in(url) == ALL


def test_children_left_by_an_earlier_version(url: str) -> None:
    """The run is gone, its children are there: erasing it again takes them."""
    enter(url, "talk", editor)
    port = open_store(url)
    grant = port.acquire("talk", at=0.0, lease_s=1)
    row = port.find_run("talk")
    assert row is not None
    assert delete_run(port, "talk", fence=grant.lease.fence, revision=row.revision)
    assert holdfast.store(url).erase("talk").children == tuple(ALL[1:])
    assert runs_in(url) == []


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_erase_that_was_killed_goes_on(url: str, nth: int) -> None:
    """After each deleted run: called again, it takes the rest, blobs included."""
    enter(url, "talk", long_editor)
    enter(url, "talk", editor)
    with pytest.raises(Killed):
        holdfast.Store(Cutting(url, "delete_runs", nth)).erase("talk")
    holdfast.store(url).erase("talk")
    assert runs_in(url) == []
    assert not open_store(url).scan_blobs(limit=10)


def test_a_fork_that_may_still_borrow_a_child(url: str) -> None:
    """The child alone cannot be erased either; flattened, the fork has it all the same."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    store.fork("talk", as_="try")
    for run in ("talk", "talk/first"):
        with pytest.raises(RunHasForks):
            store.erase(run)
    store.erase("talk", flatten=True)
    assert runs_in(url) == ["try", "try/first", "try/second", "try/second/deep"]
    assert enter(url, "try", editor) == ["first", "deep", "second"]


def test_forks_among_the_children_go_too(url: str) -> None:
    """The kept branch of a child that was rewound goes with the child."""
    enter(url, "talk", editor)
    store = holdfast.store(url)
    store.rewind("talk/second@1")
    assert "talk/second~1" in runs_in(url)
    store.erase("talk")
    assert runs_in(url) == []


def pruned(url: str, act: Callable[[holdfast.Store], Any]) -> list[str]:
    return [line.run for line in act(holdfast.store(url)).runs]


def test_prune_of_a_run_is_of_its_children_too(url: str) -> None:
    """The plan of one run names its descendants."""
    enter(url, "talk", editor)
    enter(url, "other", editor)
    assert sorted(pruned(url, lambda store: store.prune("talk", dry_run=True))) == ALL
    assert sorted(pruned(url, lambda store: store.prune("talk"))) == ALL
