"""A run whose row is damaged can be erased, and keeps prune from its own lineage only; over all four stores."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.damage import damage
from tests.support.stores import STORES

import holdfast
from holdfast.errors import Corrupt, RunHasForks
from holdfast.model.retention import Keep, Retention

ALL_GO = Retention(finished=Keep(last=0))


@pytest.fixture(params=["memory", *STORES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Store]:
    made = holdfast.store(_url(request, tmp_path))
    yield made
    made.close()


def _url(request: pytest.FixtureRequest, place: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    if request.param == "dynamodb":
        from tests.support.aws.server import table_for

        return table_for(place).url
    return f"memory://{uuid4().hex}" if request.param == "memory" else f"sqlite:///{place}/s.db"


def work(store: holdfast.Store, run: str, text: str, *, fails: bool = False) -> None:
    with suppress(ZeroDivisionError), holdfast.run(run, store=store) as opened:
        opened.step("write", str, text * 5_000)
        opened.checkpoint({"text": text * 5_000}, label="end")
        if fails:
            raise ZeroDivisionError


def contents(store: holdfast.Store) -> set[str]:
    return {info.address for info in store._port.scan_blobs(limit=1_000)}


@pytest.mark.parametrize("what", ["run", "status"])
def test_it_can_be_erased(store: holdfast.Store, what: str) -> None:
    """With its contents, and nothing of another run's; what could not be read is said, and the name is free."""
    work(store, "other", "o")
    kept = contents(store)
    work(store, "hurt", "h", fails=True)
    damage(store._port, what, "hurt")
    with pytest.raises(Corrupt):
        store.get("hurt")
    gone = store.erase("hurt")
    assert gone.events
    assert [("hurt" in text, "fails its checksum" in text) for text in gone.unread] == [(True, True)]
    assert gone.left == ()
    assert contents(store) == kept
    assert [info.run for info in store.runs()] == ["other"]
    work(store, "hurt", "again")
    assert store.get("hurt").status == "finished"


def test_beside_another_damaged_run_its_contents_may_be_left(store: holdfast.Store) -> None:
    """What the other one needs cannot be told, as contents of it are missing: that is said, and the run goes all the same."""
    work(store, "other", "o")
    broken = contents(store)
    work(store, "hurt", "h", fails=True)
    store._port.delete_blobs(sorted(broken), untouched_since=1e12)
    damage(store._port, "run", "hurt")
    gone = store.erase("hurt")
    (left,) = gone.left
    assert left.startswith("contents, since what run other needs cannot be told")
    assert [info.run for info in store.runs()] == ["other"]


def test_a_fork_of_it_can_be_erased_and_then_it_can(store: holdfast.Store) -> None:
    """It is not taken away under a fork, which borrows its events."""
    work(store, "hurt", "h", fails=True)
    store.fork("hurt@end", as_="branch")
    damage(store._port, "run", "hurt")
    with pytest.raises(RunHasForks):
        store.erase("hurt")
    store.erase("branch")
    store.erase("hurt")
    assert (store.runs(), contents(store)) == ([], set())


@pytest.mark.parametrize("what", ["run", "status"])
def test_prune_leaves_its_lineage_alone_and_no_other(store: holdfast.Store, what: str) -> None:
    """Finished runs beyond the policy go, but not it and not what it was forked from; each line says why."""
    work(store, "parent", "p")
    store.fork("parent@end", as_="hurt")
    work(store, "sound", "s")
    damage(store._port, what, "hurt")
    for dry_run in (True, False):
        report = store.prune(policy=ALL_GO, dry_run=dry_run)
        lines = {line.run: line for line in report.runs}
        assert {run: line.outcome for run, line in lines.items()} == {
            "parent": "skipped", "hurt": "skipped", "sound": "deleted",
        }  # fmt: skip
        assert "fails its checksum" in lines["hurt"].why
        assert "of one lineage with a damaged run" in lines["parent"].why
        assert "hurt" in lines["parent"].why
        assert report.notes == ()
    assert {info.run for info in store.runs()} == {"parent", "hurt"}


def test_prune_takes_no_content_that_it_needs(store: holdfast.Store) -> None:
    """What its events name stays, though its row cannot be read; what nobody names goes."""
    work(store, "hurt", "h", fails=True)
    kept = contents(store)
    work(store, "gone", "g")
    damage(store._port, "run", "hurt")
    store.prune(policy=ALL_GO)
    assert kept <= contents(store)
    assert [info.run for info in store.runs()] == ["hurt"]
