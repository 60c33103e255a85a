"""Space: free pages go back to the file system, and a thorough reclaim leaves nothing deleted in any of the files."""

import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from holdfast.errors import StoreBusy
from holdfast.model.store_rows import Append, Blob, inbox_space
from holdfast.stores.sqlite import SqliteStore, reclaim
from holdfast.testing.store_rules.builders import an_append, an_event, append, delete_run, held

NEEDLE = b"needle-in-the-files"


def bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


def filled(path: Path) -> SqliteStore:
    """A store with a run that is to go, whose every part holds the needle, between two that stay."""
    store = SqliteStore(path)
    for run, word in (("before", b"hay"), ("doomed", NEEDLE), ("behind", b"straw")):
        fence = held(store, run, body=word)
        for seq in range(1, 60):
            body = word * (1 + seq % 7 * 40)
            blobs = (Blob(f"{run}-{seq}", word * (1 + seq % 5 * 900)),)
            append(store, Append(run, fence, seq - 1, (an_event(run, seq, body=body),), blobs))
        store.put_record(inbox_space(run), "letter", word, revision=0)
    return store


def test_nothing_deleted_is_left_in_any_file(tmp_path: Path) -> None:
    """The main file with its free pages and the slack inside its pages, the WAL, the shared memory.

    Without VACUUM this finds the needle in pages that are still used by others.
    """
    path = tmp_path / "x.db"
    store = filled(path)
    assert NEEDLE in bytes_of(path)
    assert delete_run(store, "doomed", fence=1, revision=1)
    assert store.delete_blobs([f"doomed-{seq}" for seq in range(1, 60)], untouched_since=1e12) == 59
    assert NEEDLE in bytes_of(path)
    assert store.reclaim(thoroughly=True) > 0
    assert NEEDLE not in bytes_of(path)
    assert path.with_name("x.db-wal").stat().st_size == 0
    assert not [finding for finding in store.examine() if finding.verdict == "failure"]
    assert len(store.read_events("behind", limit=99)) == 59
    store.close()
    assert NEEDLE not in bytes_of(path)


def test_free_pages_go_back_to_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In as many steps as it takes; the answer is what the files shrank by."""
    monkeypatch.setattr(reclaim, "SHRINK", "PRAGMA incremental_vacuum(7)")
    path = tmp_path / "x.db"
    store = filled(path)
    assert delete_run(store, "doomed", fence=1, revision=1)
    before = sum(
        file.stat().st_size for file in tmp_path.glob("x.db*") if not file.name.endswith(("-shm", "-owners"))
    )
    shrank = store.reclaim()
    assert shrank == before - path.stat().st_size > 100_000
    assert path.with_name("x.db-wal").stat().st_size == 0
    with store._database.read() as connection:
        assert connection.pragma("freelist_count") == 0
    assert store.reclaim() == 0
    store.close()


def test_a_reader_that_does_not_end_is_told_and_keeps_what_it_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """StoreBusy after the busy timeout; the reader's snapshot stands; writers were let through meanwhile."""
    monkeypatch.setattr(reclaim, "BUSY_TIMEOUT_S", 0.5)
    path = tmp_path / "x.db"
    store = filled(path)
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM events").get == 3 * 59
    assert delete_run(store, "doomed", fence=1, revision=1)
    for thoroughly in (False, True):
        with pytest.raises(StoreBusy):
            store.reclaim(thoroughly=thoroughly)
    assert reader.execute("SELECT count(*) FROM events").get == 3 * 59
    assert append(store, an_append("behind", 1, 59)) == 60
    reader.execute("COMMIT")
    assert store.reclaim(thoroughly=True) > 0
    assert reader.execute("SELECT count(*) FROM events").get == 2 * 59 + 1
    reader.close()
    store.close()


def test_another_process_goes_on_through_a_reclaim(tmp_path: Path) -> None:
    """It writes before, during and after, loses nothing and is never refused."""
    path = tmp_path / "x.db"
    store = filled(path)
    script = (
        "import sys\n"
        "from holdfast.stores.sqlite import SqliteStore\n"
        "from holdfast.testing.store_rules.builders import *\n"
        f"store = SqliteStore({str(path)!r})\n"
        "fence = held(store, 'other')\n"
        "print('ready', flush=True)\n"
        "for seq in range(300):\n"
        "    assert append(store, an_append('other', fence, seq)) == seq + 1\n"
        "assert len(store.read_events('other', limit=999)) == 300\n"
        "store.close()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert delete_run(store, "doomed", fence=1, revision=1)
        while child.poll() is None:
            store.reclaim(thoroughly=True)
            store.reclaim()
        assert child.returncode == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()  # type: ignore[union-attr]
    assert [event.seq for event in store.read_events("other", limit=999)] == list(range(1, 301))
    assert not [finding for finding in store.examine() if finding.verdict == "failure"]
    store.close()


def test_measuring_reads_no_large_body(tmp_path: Path) -> None:
    """The lengths stand in the rows' headers: ten times the bytes, the same number of pages read."""
    store = SqliteStore(tmp_path / "x.db")
    for run, size in (("small", 10_000), ("large", 100_000)):
        fence = held(store, run)
        for seq in range(1, 21):
            append(store, Append(run, fence, seq - 1, (an_event(run, seq, body=bytes(size)),)))
    store.close()
    missed = []
    for run in ("small", "large"):
        store = SqliteStore(tmp_path / "x.db")
        assert store.measure(run).events == 20
        missed.append(store._database.reading.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0])
        store.close()
    assert missed[1] <= missed[0] + 2 < 60
