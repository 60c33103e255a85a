"""The end of a journal vanishes: a deleted WAL, an older copy in the file's place. Nothing inside the file can tell, but
what was acknowledged is also kept outside of it.

Planted once: without the look at the slot in ``acquire``, the run goes on from the old head and pays again.
"""

import shutil
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import AcknowledgedLost
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import an_append, append, held


def agent(url: str, paid: list[int], upto: int) -> None:
    with holdfast.run("a", store=url) as run:
        for number in range(upto):
            run.once("pay", paid.append, number)


@pytest.fixture
def older(tmp_path: Path) -> tuple[str, Path, list[int]]:
    """A store with a run that has paid five times, in the place of which a copy was put from when it had paid twice."""
    place = tmp_path / "store"
    paid: list[int] = []
    place.mkdir()
    url = f"sqlite:///{place / 'runs.db'}"
    agent(url, paid, 2)
    holdfast.store(url)._port.close()
    copy = tmp_path / "copy.db"
    shutil.copy(place / "runs.db", copy)
    with holdfast.run("a", store=url, if_finished="reopen") as run:
        for number in range(5):
            run.once("pay", paid.append, number)
    holdfast.store(url)._port.close()
    (place / "runs.db-wal").unlink(missing_ok=True)
    # its content, not another file: the slot is known by where the run's row lies
    (place / "runs.db").write_bytes(copy.read_bytes())
    return url, place, paid


def test_a_run_that_was_acknowledged_further_is_not_entered(older: tuple[str, Path, list[int]]) -> None:
    """The error tells how far, and the hint's command is there; nothing is paid twice."""
    url, _, paid = older
    with (
        pytest.raises(AcknowledgedLost, match=r"event #\d+ was acknowledged") as refused,
        holdfast.run("a", store=url, if_finished="reopen") as run,
    ):
        run.once("pay", paid.append, 4)
    assert f"holdfast doctor --accept-loss a --store {url}" in refused.value.hint
    assert paid == [0, 1, 2, 3, 4]
    failures = [one.text for one in holdfast.store(url).examine() if one.verdict == "failure"]
    assert len(failures) == 1
    assert "its journal ends at" in failures[0]


def test_a_person_lets_it_go_on_and_the_journal_tells(older: tuple[str, Path, list[int]]) -> None:
    """How many events are missed stands in the journal from then on; what is still recorded is not paid again."""
    url, _, paid = older
    store = holdfast.store(url)
    missed = store.accept_loss("a")
    assert missed > 0
    assert store.accept_loss("a") == 0
    with holdfast.run("a", store=url, if_finished="reopen") as run:
        for number in (0, 1, 7):
            run.once("pay", paid.append, number)
    (cut,) = [event for event in store.events("a") if event.kind == "journal.cut"]
    assert f'"events":{missed}'.encode() in cut.body
    assert paid == [0, 1, 2, 3, 4, 7]


def test_sound_stores_are_never_suspected(tmp_path: Path) -> None:
    """Written, killed, pruned, forked, deleted under the same name and made again: what is acknowledged is there."""
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    fence = held(store, "r")
    for number in range(20):
        append(store, an_append("r", fence, number, synced=number % 3 == 0))
    assert store.release("r", fence=fence)
    grant = store.acquire("r", at=1.0, lease_s=30.0)
    assert grant.granted
    row = store.find_run("r")
    assert row is not None
    assert store.delete_run("r", fence=grant.lease.fence, revision=row.revision)
    fence = held(store, "r")
    append(store, an_append("r", fence, 0))
    store.close()
    again = SqliteStore(path)
    found = again.find_run("r")
    assert found is not None
    assert again.acquire("r", at=2.0, lease_s=30.0, over=found.lease).granted
    assert not [one for one in again.examine() if one.verdict == "failure"]
    again.close()


def test_what_is_only_flushed_is_not_missed(tmp_path: Path) -> None:
    """A power cut may take it: nobody said that it would be there."""
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    fence = held(store, "r")
    append(store, an_append("r", fence, 0))
    append(store, an_append("r", fence, 1, synced=False))
    connection = store._database
    with connection.write(synced=True) as writing:
        writing.execute("DELETE FROM events WHERE id & 4294967295 = 2")
    assert store.release("r", fence=fence)
    assert store.acquire("r", at=1.0, lease_s=30.0).granted
    store.close()
