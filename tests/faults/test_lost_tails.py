"""The end of a journal vanishes: a deleted WAL, an older copy in the file's place. Nothing inside the file can tell, but
what was acknowledged is also kept outside of it.

Planted once: without the look at the slot in ``acquire``, the run goes on from the old head and pays again.
"""

import contextlib
import errno
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

import holdfast
from holdfast.errors import AcknowledgedLost
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import a_run, an_append, append, delete_run, held, revision_of


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
    assert delete_run(store, "r", fence=grant.lease.fence, revision=row.revision)
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


PAYS: Final = """
import os
import holdfast

def pay(number):
    with open("paid", "a") as file:
        file.write("paid\\n")
    return "ok"

with holdfast.run("shop", store="sqlite:///a.db") as run:
    run.once("pay", pay, 7)
    if len(open("paid").readlines()) == 1:
        os.kill(os.getpid(), 9)
"""


def pays(place: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PAYS], cwd=place, capture_output=True, text=True, timeout=60, check=False
    )


def lose_wal(place: Path) -> None:
    (place / "a.db-wal").unlink()
    (place / "a.db-shm").unlink()


def lose_start_of_wal(place: Path) -> None:
    with (place / "a.db-wal").open("r+b") as file:
        file.write(bytes(4_096))


def lose_rows(place: Path) -> None:
    with contextlib.closing(sqlite3.connect(place / "a.db")) as connection, connection:
        connection.execute("delete from events")
        connection.execute("delete from runs")


def lose_content(place: Path) -> None:
    lose_wal(place)
    (place / "a.db").write_bytes(b"")


@pytest.mark.parametrize("lose", [lose_wal, lose_start_of_wal, lose_rows, lose_content])
def test_a_run_that_is_gone_as_a_whole_is_missed(tmp_path: Path, lose: Callable[[Path], None]) -> None:
    """A run that was begun since the last fold stands in the WAL alone. It is not begun anew until a person accepts that."""
    assert pays(tmp_path).returncode == -9
    lose(tmp_path)
    again = pays(tmp_path)
    assert "AcknowledgedLost" in again.stderr
    assert "holdfast doctor --accept-loss shop" in again.stderr
    store = holdfast.store(f"sqlite:///{tmp_path / 'a.db'}")
    failures = [one.text for one in store.examine() if one.verdict == "failure"]
    assert len(failures) == 1
    assert "run shop" in failures[0]
    # another run neither takes its place nor is suspected, and its own loss would be noticed
    agent(store.url, [], 1)
    assert "AcknowledgedLost" in pays(tmp_path).stderr
    assert (tmp_path / "paid").read_text() == "paid\n"
    assert store.accept_loss("shop") > 0
    assert not [one for one in store.examine() if one.verdict == "failure"]
    assert pays(tmp_path).returncode == 0
    assert (tmp_path / "paid").read_text() == "paid\npaid\n"
    with pytest.raises(holdfast.UnknownRun):
        store.accept_loss("nobody")


def test_a_store_that_a_person_deleted_is_not_missed(tmp_path: Path) -> None:
    """Without the file there is nothing that could have lost a part of itself: a new store begins, and the log says so."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    agent(url, [], 2)
    holdfast.store(url)._port.close()
    (tmp_path / "a.db").unlink()
    paid: list[int] = []
    agent(url, paid, 2)
    assert paid == [0, 1]


def test_an_older_copy_with_another_run_of_that_id_is_noticed(tmp_path: Path) -> None:
    """The id was deleted and given again since: what the copy holds is not the run that was acknowledged."""
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    fence = held(store, "r")
    for number in range(9):
        append(store, an_append("r", fence, number))
    store.release("r", fence=fence)
    store.close()
    copy = path.read_bytes()
    store = SqliteStore(path)
    fence = store.acquire("r", at=1.0, lease_s=30.0).lease.fence
    row = store.find_run("r")
    assert row is not None
    assert delete_run(store, "r", fence=fence, revision=row.revision)
    assert store.create_run(a_run("r", birth="another"))
    fence = store.acquire("r", at=2.0, lease_s=30.0).lease.fence
    append(store, an_append("r", fence, 0))
    store.release("r", fence=fence)
    store.close()
    path.write_bytes(copy)
    again = SqliteStore(path)
    with pytest.raises(AcknowledgedLost):
        again.acquire("r", at=3.0, lease_s=30.0)
    again.close()


def test_a_prune_deletes_no_run_that_is_shorter_than_was_acknowledged(
    older: tuple[str, Path, list[int]],
) -> None:
    """It would take the only sign of the loss along; the others go. Planted: without a look at the slot it is deleted."""
    url, _, _ = older
    store = holdfast.store(url)
    with holdfast.run("whole", store=url) as run:
        run.step("look", str, 1)
    report = store.prune(policy=holdfast.Retention(finished=holdfast.Keep(days=0)))
    lines = {line.run: line for line in report.runs}
    assert {run: line.outcome for run, line in lines.items()} == {"a": "skipped", "whole": "deleted"}
    assert "was acknowledged" in lines["a"].why
    assert store.accept_loss("a") > 0


def test_a_slot_is_freed_before_its_row_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed behind the deletion, or with the power cut there, nothing is missed: the slot was freed and synced before."""
    store = SqliteStore(tmp_path / "x.db")
    fence = held(store, "r")
    append(store, an_append("r", fence, 0))
    row = store.find_run("r")
    assert row is not None

    def fails(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.stores.sqlite.locks.owners._sync_content", fails)
        with pytest.raises(holdfast.StoreUnavailable):
            delete_run(store, "r", fence=fence, revision=row.revision)
    assert store.find_run("r") is not None
    assert delete_run(store, "r", fence=fence, revision=row.revision)
    assert store.create_run(a_run("r"))
    store.close()


def test_a_run_that_took_anothers_place_leaves_no_slot_behind(tmp_path: Path) -> None:
    """Both slots are freed: the id that was given up may be given again, and the one that stays is noted at its new place."""
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    fences = {run: held(store, run) for run in ("r", "copy")}
    for run, fence in fences.items():
        append(store, an_append(run, fence, 0))
    assert store.adopt_events("r", of="copy", fence=fences["r"], revision=revision_of(store, "r"))
    assert store.create_run(a_run("copy"))
    append(store, an_append("r", fences["r"], 1))
    assert [one.verdict for one in store.examine() if one.subject == "heads"] == ["ok"]
    with store._database.write(synced=True) as writing:
        writing.execute("DELETE FROM events WHERE id & 4294967295 = 2")
    (failure,) = [one for one in store.examine() if one.subject == "heads"]
    assert "run r" in failure.text
    store.close()


def test_an_erased_run_may_begin_again(tmp_path: Path) -> None:
    """What a person takes away is not missed, in any process."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    agent(url, [], 2)
    store = holdfast.store(url)
    store.erase("a")
    paid: list[int] = []
    agent(url, paid, 2)
    assert paid == [0, 1]
    assert not [one for one in store.examine() if one.verdict == "failure"]
