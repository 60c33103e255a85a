"""Between the verbs and SQLite: turns, interrupted transactions, what is dirty, what is mapped."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import limits
from holdfast.errors import StoreBusy, StoreError
from holdfast.model.store_rows import Append, Appended, Blob, Refusal, Removal
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.errors import MAPPED, translated
from holdfast.testing.store_rules.builders import (
    AT,
    an_append,
    an_event,
    append,
    held,
    in_threads,
)

_DEADLINE_S = 60.0
_UNBINDABLE = "\ud800"  # a lone surrogate is a str and no text


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "holdfast.db")
    yield opened
    opened.close()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.001)


def poisoned(run: str, fence: int, after_seq: int) -> Append:
    """An item that passes every check and cannot be bound."""
    return Append(run, fence, after_seq, (an_event(run, after_seq + 1)._replace(name=_UNBINDABLE),))


# -- errors -----------------------------------------------------------------------------------------------------


def test_every_error_of_the_driver_is_mapped() -> None:
    """By name, so that a new class of apsw's is decided about and not merely caught."""
    found = {
        value for value in vars(apsw).values() if isinstance(value, type) and issubclass(value, apsw.Error)
    } - {apsw.Error}
    assert found == set(MAPPED)
    for error in found:
        made = translated(error("the reason"), Path("/x.db"))
        assert type(made) is MAPPED[error]
        assert isinstance(made, StoreError)
        assert "/x.db" in str(made)
        assert "the reason" in str(made)
        assert isinstance(made.__cause__, error)


def test_no_driver_error_leaves_the_store(store: SqliteStore) -> None:
    """Whatever verb meets it, reading or writing."""
    held(store)
    store._database.synced.execute("ALTER TABLE records RENAME TO gone")
    for verb in (
        lambda: store.get_record("s", "k"),
        lambda: store.put_record("s", "k", b"", revision=0),
        lambda: store.append([an_append("r", 1, 0, consumed=("l",))]),
    ):
        with pytest.raises(StoreError, match="no such table"):
            verb()


def test_a_database_locked_for_too_long_is_busy(store: SqliteStore) -> None:
    """After the busy timeout, with nothing written; afterwards the same call is taken."""
    fence = held(store)
    store._database.synced.set_busy_timeout(20)
    other = apsw.Connection(str(store.path))
    other.execute("BEGIN IMMEDIATE")
    for item in (an_append("r", fence, 0), an_append("r", fence, 0, 2)):
        with pytest.raises(StoreBusy, match=r"holdfast\.db"):
            store.append([item])
    other.execute("ROLLBACK")
    other.close()
    assert append(store, an_append("r", fence, 0)) == 1


# -- exceptions in the middle -----------------------------------------------------------------------------------


def test_an_exception_in_the_middle_undoes_the_batch(store: SqliteStore) -> None:
    """All of it, and the next append finds a clean connection."""
    fence = held(store)
    with pytest.raises(UnicodeEncodeError):
        store.append([an_append("r", fence, 0), poisoned("r", fence, 1)])
    with pytest.raises(UnicodeEncodeError):
        store.append([poisoned("r", fence, 0)])
    assert store.read_events("r", limit=10) == []
    assert append(store, an_append("r", fence, 0)) == 1


def test_an_append_with_a_blob_is_whole_or_absent(store: SqliteStore) -> None:
    """It is one call of the driver with a transaction in it: whatever stops it, nothing is left open or half."""
    fence = held(store)
    blob = Blob("ab" * 32, b"content")
    for synced in (True, False):
        item = an_append("r", fence, 0, blobs=(blob,), synced=synced)
        with pytest.raises(UnicodeEncodeError):
            store.append([poisoned("r", fence, 0)._replace(blobs=(blob,), synced=synced)])
        (stale,) = store.append([item._replace(fence=fence + 1)])
        (conflict,) = store.append([an_append("r", fence, 5, blobs=(blob,), synced=synced)])
        assert isinstance(stale, Refusal)
        assert isinstance(conflict, Refusal)
        assert (stale.reason, conflict.reason) == ("fenced", "conflict")
        assert store.get_blobs([blob.address]) == {}
        database = store._database
        assert not database.synced.in_transaction
        assert not database.flushed.in_transaction
        assert database.trouble == ""
    assert append(store, item) == 1
    assert store.get_blobs([blob.address]) == {blob.address: b"content"}


def test_a_transaction_that_was_left_open_swallows_no_append(store: SqliteStore, tmp_path: Path) -> None:
    """An interrupt may fall between BEGIN and its handler; the next append is committed, not added to that.

    Planted once: with ``mend`` not rolling back, the append was acknowledged and invisible to the other handle.
    """
    fence = held(store)
    database = store._database
    for count in (1, 2):
        database.trouble = "open"
        database.synced.execute("BEGIN IMMEDIATE")
        database.synced.execute("DELETE FROM events")
        append(store, an_append("r", fence, 0 if count == 1 else 1, count))
        other = SqliteStore(tmp_path / "holdfast.db")
        assert [event.seq for event in other.read_events("r", limit=9)] == [1, 2, 3][: 2 * count - 1]
        other.close()


def test_an_interrupted_transaction_is_undone(store: SqliteStore) -> None:
    """KeyboardInterrupt passes through, nothing is left open."""
    held(store)
    with pytest.raises(KeyboardInterrupt), store._database.write(synced=True) as connection:
        connection.execute("DELETE FROM runs")
        raise KeyboardInterrupt
    assert store.find_run("r") is not None
    assert not store._database.synced.in_transaction
    assert store._database.trouble == ""


# -- turns -----------------------------------------------------------------------------------


def test_who_writes_in_a_loop_does_not_starve_the_beat(store: SqliteStore) -> None:
    """The lock is not fair, so this was measured: a beat waits 2 ms at worst, and a lease allows seconds."""
    fence = held(store)
    waits_s: list[float] = []
    done = threading.Event()

    def work(number: int) -> None:
        if number:
            while not done.is_set():
                before = time.monotonic()
                assert store.renew({"r": fence}, at=AT) == frozenset()
                waits_s.append(time.monotonic() - before)
        else:
            for seq in range(1000):
                append(store, an_append("r", fence, seq, synced=seq % 2 == 0))
            done.set()

    in_threads(2, work)
    assert max(waits_s) < limits.LEASE_S / 2
    assert len(waits_s) >= 10


def test_readers_do_not_wait_for_writers(store: SqliteStore) -> None:
    """A read goes through while somebody else's transaction is open, and sees the state before it."""
    held(store)
    with store._database.write(synced=True) as connection:
        connection.execute("UPDATE runs SET status = 'changed'")
        found = store.find_run("r")
        assert found is not None
        assert found.status == "queued"


# -- durability -------------------------------------------------------------------------------------------------


def test_only_a_synced_commit_that_wrote_makes_clean(store: SqliteStore) -> None:
    """A refused append commits nothing, so it syncs nothing: what was flushed before is still only flushed."""
    database = store._database
    fence = held(store)
    store.sync()  # a lease is flushed: a power cut ends its holder, too
    steps: list[tuple[Callable[[], object], bool]] = [
        (lambda: append(store, an_append("r", fence, 0, synced=False)), True),
        (lambda: store.append([an_append("r", fence, 0)]), True),
        (lambda: store.append([an_append("r", fence, 0, 2)]), True),
        (lambda: store.put_record("s", "k", b"", revision=5), True),
        (lambda: append(store, an_append("r", fence, 1)), False),
        (lambda: store.renew({"r": fence}, at=AT), True),
        (lambda: append(store, an_append("r", fence, 2, 2)), False),
        (lambda: store.put_record("s", "k", b"", revision=0, synced=False), True),
        (store.sync, False),
    ]
    for number, (step, dirty) in enumerate(steps):
        step()
        assert database.dirty is dirty, f"after step {number}"


def test_sync_writes_only_when_there_is_something_to_sync(store: SqliteStore) -> None:
    """Cheap when there is nothing to do."""
    fence = held(store)
    store.sync()
    changes = store._database.synced.total_changes()
    store.sync()
    assert store._database.synced.total_changes() == changes
    append(store, an_append("r", fence, 0, synced=False))
    store.sync()
    assert store._database.synced.total_changes() == changes + 1
    store.sync()
    assert store._database.synced.total_changes() == changes + 1


def test_deleted_blobs_give_their_space_back(store: SqliteStore) -> None:
    """In steps, without a VACUUM of the whole file."""
    from holdfast.model.store_rows import Blob

    store.put_blobs([Blob(f"{number:064x}", bytes(100_000)) for number in range(10)], at=1.0)
    pages = store._database.reading.pragma("page_count")
    assert store.delete_blobs([f"{number:064x}" for number in range(10)], untouched_since=2.0) == 10
    assert store._database.reading.pragma("page_count") < pages / 2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_item_of_a_batch_is_one_statement(store: SqliteStore, count: int) -> None:
    """What many runs append together: each item is checked and written by the statement that appends one alone, also
    behind an item that is refused, which is looked at by itself. Two statements an event, it was."""
    fences = {f"r{number}": held(store, f"r{number}") for number in range(20)}
    store.append(
        [an_append(run, fence, 0, count) for run, fence in fences.items()]
    )  # the runs' numbers are known now
    statements: list[str] = []
    connection = store._database.synced

    def note(_: apsw.Cursor, text: str, __: object) -> bool:
        statements.append(text.split(maxsplit=1)[0])
        return True

    connection.exec_trace = note
    try:
        outcomes = store.append(
            [an_append(run, fence + (run == "r7"), count, count) for run, fence in fences.items()]
        )
    finally:
        connection.exec_trace = None
    assert [type(outcome) for outcome in outcomes] == [Refusal if run == "r7" else Appended for run in fences]
    asked = {
        "BEGIN": 1,
        "INSERT": 21,
        "SELECT": 1,
        "COMMIT": 1,
    }  # the refused item: tried twice, and the reason
    assert Counter(statements) == asked


# -- syncs ------------------------------------------------------------------------------------------------------


class Counting(apsw.VFS):
    """Counts the syncs of SQLite, by the end of the file's name."""

    def __init__(self) -> None:
        self.syncs: Counter[str] = Counter()
        super().__init__("counting", "unix")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return CountingFile(self.syncs, name, flags)


class CountingFile(apsw.VFSFile):
    def __init__(self, syncs: Counter[str], name: Any, flags: list[int]) -> None:
        self._syncs = syncs
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._end = str(path).rpartition("holdfast.db")[2]
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:
        self._syncs[self._end] += 1
        super().xSync(flags)


@pytest.mark.parametrize("count", [1, limits.REMOVALS_MAX])
def test_runs_are_deleted_with_two_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """However many they are: one of their slots in the side file, and one of the WAL behind it."""
    disk = Counting()
    order: list[str] = []
    monkeypatch.setattr("holdfast.stores.sqlite.locks.owners._sync_content", lambda _: order.append("slots"))
    apsw.set_default_vfs("counting")
    try:
        store = SqliteStore(tmp_path / "holdfast.db")
        removals = []
        for number in range(count):
            append(store, an_append(f"r{number}", held(store, f"r{number}"), 0, 3))
            removals.append(Removal(f"r{number}", 1, 1))
        disk.syncs.clear()
        assert store.delete_runs(removals) == [True] * count
        assert disk.syncs == {"-wal": 1}
        assert order == ["slots"]
        store.close()
    finally:
        apsw.set_default_vfs("unix")
        disk.unregister()
