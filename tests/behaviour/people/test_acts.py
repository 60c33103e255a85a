"""Who asked for an act that leaves no event is recorded, and what history does with that record."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

import holdfast
from holdfast import limits
from holdfast.model.events import Kind
from holdfast.model.retention import Keep


@pytest.fixture
def store(url: str) -> holdfast.Store:
    store = holdfast.store(url)
    with holdfast.run("r", store=store) as run:
        run.restore(None)
        for n in range(30):
            run.checkpoint({"n": n, "text": str(n) * 100})
        run.close()
    return store


@pytest.fixture
def there() -> Iterator[holdfast.Store]:
    store = holdfast.store(f"memory://{uuid4().hex}")
    yield store
    store.close()


def acts(store: holdfast.Store, run: str = "r") -> list[tuple[str, str]]:
    return [(one.act, one.by) for one in store.acts(run)]


def test_prune_export_and_handoff_name_the_person(store: holdfast.Store, tmp_path: Path) -> None:
    """Each with what it was about. Without a person, as for a program that prunes, nothing is recorded."""
    store.prune("r", policy={"checkpoints": Keep(last=5)})
    store.export("r", tmp_path / "x")
    store.handoff("r")
    assert store.acts("r") == []
    store.prune("r", policy={"checkpoints": Keep(last=2)}, by="ada")
    store.prune("r", policy={"checkpoints": Keep(last=2)}, by="ada")  # nothing is left to do
    store.export("r", tmp_path / "y", by="grace")
    store.handoff("r", "writer", by="eve")
    assert acts(store) == [("prune", "ada"), ("export", "grace"), ("handoff", "eve")]
    assert [one.about for one in store.acts("r")][1:] == [str(tmp_path / "y"), "to writer"]
    assert "bytes less" in store.acts("r")[0].about


def test_a_dry_run_and_a_refusal_are_no_act(store: holdfast.Store, tmp_path: Path) -> None:
    """Only what was done is recorded."""
    store.prune("r", policy={"checkpoints": Keep(last=2)}, dry_run=True, by="ada")
    store.export("r", tmp_path / "x", dry_run=True, by="ada")
    with pytest.raises(holdfast.HoldfastError):
        store.export("nothing", tmp_path / "x", by="ada")
    assert store.acts("r") == []


def test_a_seal_names_the_person_in_the_journal(store: holdfast.Store, tmp_path: Path) -> None:
    """By a handoff, taken back, and by a move."""
    store.handoff("r", seal=True, by="ada")
    store.unseal("r", by="grace")
    store.export("r", tmp_path / "x", move=True, by="eve")
    kinds = {Kind.RUN_SEALED, Kind.RUN_UNSEALED}
    told = [store.content(event)["by"] for event in store.events("r") if event.kind in kinds]
    assert told == ["ada", "grace", "eve"]
    assert store.acts("r") == []


def test_only_so_many_are_kept(store: holdfast.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes."""
    monkeypatch.setattr("holdfast.engine.people.acts.ACTS_KEPT", 3)
    for n in range(5):
        store.handoff("r", by=f"person {n}")
    assert acts(store) == [("handoff", f"person {n}") for n in (2, 3, 4)]
    store.handoff("r", by="x" * 10_000)
    assert len(store.acts("r")[-1].by) == limits.ACT_TEXT_CHARS_MAX


def test_they_stay_with_the_run_and_the_store(
    store: holdfast.Store, there: holdfast.Store, tmp_path: Path
) -> None:
    """A fork has none of its own, a rewind keeps all, no move takes them along; an erased run leaves none."""
    store.handoff("r", by="ada")
    store.fork("r@3", as_="f")
    kept = store.rewind("r@5").kept
    store.prune("r", policy={"checkpoints": Keep(last=1)})
    assert (acts(store), acts(store, "f"), acts(store, kept)) == ([("handoff", "ada")], [], [])
    store.copy(there)
    store.export("f", tmp_path / "x", move=True)
    assert acts(there) == []
    store.erase("r", flatten=True)
    assert store._port.scan_records("acts", limit=10) == []
    with holdfast.run("r", store=store) as again:
        again.step("s", str, 1)
    assert acts(store) == []
