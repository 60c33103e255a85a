"""What lies on the disk: settings, permissions, refusals, creation, and what people see with the sqlite3 shell."""

import hashlib
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.errors import NewerFormat, NotAStore, NotDurable, StoreUnavailable
from holdfast.model.store_rows import Cursor
from holdfast.stores.sqlite import SqliteStore, connection, create
from holdfast.stores.sqlite.file_system import NETWORK, filesystem_of
from holdfast.testing.store_rules.builders import AT, a_run, an_append, an_event, append, held


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store goes: a directory that is not there yet."""
    return tmp_path / "deep" / ".holdfast" / "holdfast.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """An open store."""
    opened = SqliteStore(path)
    yield opened
    opened.close()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


_MOUNTS = r"""22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:22 / /mnt/a rw - nfs4 server:/x rw
24 22 0:23 / /mnt/a/b rw master:2 propagate_from:1 - xfs /dev/vdb rw
25 22 0:24 / /mnt/with\040blank rw - tmpfs tmpfs rw
26 22 0:25 / /mnt/covered rw - ext4 /dev/vdc rw
27 22 0:26 / /mnt/covered rw - fuse.sshfs me@there: rw
not a mount at all
"""

# -- settings ---------------------------------------------------------------------------------------------------


def test_every_connection_has_the_settings_that_durability_rests_on(store: SqliteStore) -> None:
    """Read back from SQLite itself: FULL for synced, NORMAL for flushed, no writing for reading."""
    database = store._database
    for handle, synchronous, query_only in (
        (database.synced, 2, 0),
        (database.flushed, 1, 0),
        (database.reading, 1, 1),
    ):
        found = {name: handle.pragma(name) for name in (*connection.SETTINGS, "synchronous", "query_only")}
        assert found == {**connection.SETTINGS, "synchronous": synchronous, "query_only": query_only}
    assert found["journal_mode"] == "wal"
    assert found["fullfsync"] == found["foreign_keys"] == 1
    assert found["busy_timeout"] == 10_000


def test_a_setting_that_does_not_stick_refuses_the_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite ignores what it does not like without a word; 3 is no page size, so it stays as it was."""
    monkeypatch.setitem(connection.SETTINGS, "page_size", 3)
    with pytest.raises(NotDurable, match="page_size"):
        SqliteStore(path)


def test_the_header_tells_whose_file_it_is(store: SqliteStore) -> None:
    """application_id and format version stand in the file from its first byte on; space is given back in steps."""
    reading = store._database.reading
    assert reading.pragma("application_id") == int.from_bytes(b"HOLD", "big")
    assert reading.pragma("user_version") == 2
    assert reading.pragma("auto_vacuum") == 2
    store.close()  # closing a plain descriptor of an open database would drop its locks
    assert Path(store.path).read_bytes()[68:72] == b"HOLD"


# -- permissions and syncs --------------------------------------------------------------------------------------


def test_the_files_are_private_under_any_umask(path: Path) -> None:
    """Directories 0700, files 0600, also those that SQLite makes beside ours."""
    before = os.umask(0)
    try:
        store = SqliteStore(path)
        held(store)
        files = {entry.name: mode_of(entry) for entry in path.parent.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert mode_of(path.parent) == mode_of(path.parent.parent) == 0o700
    assert files == dict.fromkeys(
        ["holdfast.db", "holdfast.db-wal", "holdfast.db-shm", "holdfast.db-owners"], 0o600
    )


def test_a_directory_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    """It is the user's."""
    tmp_path.chmod(0o755)
    SqliteStore(tmp_path / "x.db").close()
    assert mode_of(tmp_path) == 0o755


def test_new_names_are_synced_into_their_directories(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new directory into its parent, and the file's own directory after the file has its name."""
    synced: list[tuple[Path, bool]] = []
    monkeypatch.setattr(
        create, "sync_directory", lambda directory: synced.append((Path(directory), path.exists()))
    )
    SqliteStore(path).close()
    assert synced == [
        (path.parents[2], False),
        (path.parents[1], False),
        (path.parent, True),
    ]


# -- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"x", b"\0" * 5000, b"Dear diary, " * 500, b"SQLite format 3\0" + b"junk" * 300]
)
def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    """Byte for byte, and with nothing put beside it."""
    path = tmp_path / "diary.db"
    path.write_bytes(content)
    with pytest.raises(NotAStore, match=r"diary\.db"):
        SqliteStore(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_another_applications_database_is_refused_untouched(tmp_path: Path, journal_mode: str) -> None:
    """Not even its WAL is folded in: whoever owns it decides that."""
    path = tmp_path / "theirs.db"
    child = (
        f"import sqlite3, os; c = sqlite3.connect({str(path)!r}); c.execute('PRAGMA journal_mode={journal_mode}');"
        "c.execute('CREATE TABLE t (a)'); c.execute('INSERT INTO t VALUES (1)'); c.commit(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", child], check=True)
    before = {entry.name: digest(entry) for entry in tmp_path.iterdir()}
    with pytest.raises(NotAStore, match="another application"):
        SqliteStore(path)
    assert {entry.name: digest(entry) for entry in tmp_path.iterdir()} == before


def test_a_newer_format_is_refused_untouched(path: Path) -> None:
    """Reading it could lose what this version does not know."""
    SqliteStore(path).close()
    newer = apsw.Connection(str(path))
    newer.execute("PRAGMA user_version = 3")
    newer.close()
    before = digest(path)
    with pytest.raises(NewerFormat, match="format is 3"):
        SqliteStore(path)
    assert digest(path) == before


def test_a_newer_format_that_is_still_in_the_wal_is_refused(path: Path) -> None:
    """The header in the file may be older than what was committed; the connection sees the latter."""
    with SqliteHolder(path) as holder:
        holder.execute("PRAGMA user_version = 3")
        with pytest.raises(NewerFormat, match="format is 3"):
            SqliteStore(path)


class SqliteHolder:
    """A connection that keeps the WAL from being folded in."""

    def __init__(self, path: Path) -> None:
        SqliteStore(path).close()
        self._connection = apsw.Connection(str(path))

    def __enter__(self) -> apsw.Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    """SqliteStore takes a file; finding one in a directory is the URL's business."""
    with pytest.raises(NotAStore, match="directory"):
        SqliteStore(tmp_path)


@pytest.mark.parametrize("kind", sorted(NETWORK))
def test_a_network_file_system_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Before anything is created there."""
    monkeypatch.setattr(create, "filesystem_at", lambda _: kind)
    with pytest.raises(NotDurable, match=kind):
        SqliteStore(path)
    assert not path.parent.exists()


def test_the_file_system_of_a_path_is_the_innermost_last_mount() -> None:
    """From the text of mountinfo alone: depth, covering mounts, look-alike names, blanks, optional fields."""
    found = {
        path: filesystem_of(_MOUNTS, path)
        for path in (
            "/x",
            "/mnt/a",
            "/mnt/a/f",
            "/mnt/ab",
            "/mnt/a/b/f",
            "/mnt/with blank/f",
            "/mnt/covered/f",
        )
    }
    assert found == {
        "/x": "ext4",
        "/mnt/a": "nfs4",
        "/mnt/a/f": "nfs4",
        "/mnt/ab": "ext4",
        "/mnt/a/b/f": "xfs",
        "/mnt/with blank/f": "tmpfs",
        "/mnt/covered/f": "fuse.sshfs",
    }
    assert filesystem_of("", "/x") == ""


# -- creation ---------------------------------------------------------------------------------------------------


def test_an_empty_file_is_ours_to_fill(path: Path) -> None:
    """As tempfile and touch leave it."""
    path.parent.mkdir(parents=True)
    path.touch()
    store = SqliteStore(path)
    assert held(store) == 1
    store.close()
    assert mode_of(path) == 0o600


def test_a_symlink_leads_to_the_one_file(path: Path, tmp_path: Path) -> None:
    """The WAL lies beside the file and not beside the link, so both names are the same store."""
    SqliteStore(path).close()
    link = tmp_path / "link.db"
    link.symlink_to(path)
    store = SqliteStore(link)
    held(store)
    assert store.path == str(path)
    assert not (tmp_path / "link.db-wal").exists()
    store.close()


def test_leftovers_of_a_deleted_database_are_not_replayed(path: Path) -> None:
    """Somebody deleted the file and not its WAL: the old frames must not appear in the new store."""
    child = (
        "import os; from holdfast.stores.sqlite import SqliteStore; from holdfast.testing.store_rules.builders import a_run;"
        f"s = SqliteStore({str(path)!r}); s.create_run(a_run('old')); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", child], check=True)
    assert path.with_name(path.name + "-wal").stat().st_size > 0
    path.unlink()
    store = SqliteStore(path)
    assert store.find_run("old") is None
    assert [finding for finding in store.examine() if finding.verdict == "failure"] == []
    store.close()


def test_a_crash_during_creation_leaves_no_half_made_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file gets its name when it is whole; the next start clears what was left."""

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            SqliteStore(path)
    assert not path.exists()
    path.with_name(path.name + "-new").write_bytes(b"torn")
    store = SqliteStore(path)
    assert held(store) == 1
    assert not path.with_name(path.name + "-new").exists()
    store.close()


def test_processes_that_create_the_same_store_at_once_all_succeed(path: Path) -> None:
    """And see each other's runs: it is one store."""
    child = (
        "import sys; from holdfast.stores.sqlite import SqliteStore; from holdfast.testing.store_rules.builders import a_run;"
        "print('ready', flush=True); sys.stdin.readline();"
        f"s = SqliteStore({str(path)!r}); assert s.create_run(a_run(sys.argv[1])); s.close()"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", child, f"r{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for process in children:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in children:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in children:
        process.communicate(timeout=60)
    assert [process.returncode for process in children] == [0, 0, 0, 0]
    store = SqliteStore(path)
    assert sorted(row.run for row in store.list_runs(limit=10)) == ["r0", "r1", "r2", "r3"]
    store.close()


def test_who_waits_for_a_change_notices_that_the_file_is_gone(path: Path, store: SqliteStore) -> None:
    """A file that was deleted never changes, and can still be read: a page over it stayed silent for ever."""
    held(store)
    row = store.find_run("r")
    assert row is not None
    cursors = {"r": Cursor(row.lease.fence, row.head, 0)}
    assert not store.wait(cursors, timeout_s=0)
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(StoreUnavailable, match="moved or deleted"):
        store.wait(cursors, timeout_s=0)


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
def test_a_file_that_is_taken_away_is_noticed_with_the_next_beat(
    path: Path, store: SqliteStore, fate: str
) -> None:
    """SQLite would go on writing to a file that nobody can open again."""
    fence = held(store)
    path.rename(path.with_name("elsewhere"))
    if fate == "replaced":
        path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="moved or deleted"):
        store.renew({"r": fence}, at=AT)
    with pytest.raises(StoreUnavailable, match="moved or deleted"):
        store.acquire("r", at=AT, lease_s=30.0)
    path.with_name("elsewhere").rename(path)
    assert store.renew({"r": fence}, at=AT) == frozenset()


# -- for people -------------------------------------------------------------------------------------------------


def test_the_views_answer_with_the_plain_sqlite3_of_the_system(path: Path) -> None:
    """Which tool ran most, where did runs fail, what happened: no Holdfast needed, and an older SQLite will do."""
    store = SqliteStore(path)
    fence = held(store, "debt-cycles")
    error = b'{"error":{"type":"OSError","message":"rate limited"}}'
    told = [
        ("step.started", "survey", b"{}"),
        ("step.finished", "survey", b"{}"),
        ("step.started", "survey", b"{}"),
    ]
    told += [
        ("step.failed", "survey", error),
        ("step.started", "draft", b"{}"),
        ("step.failed", "draft", b"\xff"),
    ]
    told += [("attempt.ended", "", b'{"error":{"message":"gave up"}}'), ("attempt.ended", "", b"{}")]
    events = tuple(
        an_event("debt-cycles", seq, body=body, name=name)._replace(kind=kind)
        for seq, (kind, name, body) in enumerate(told, 1)
    )
    append(store, an_append("debt-cycles", fence, 0)._replace(events=events))
    store.close()
    shell = sqlite3.connect(path)
    assert shell.execute("SELECT name, started, finished, failed FROM tool_counts").fetchall() == [
        ("survey", 2, 1, 1),
        ("draft", 1, 0, 1),
    ]
    assert shell.execute("SELECT run, seq, name, error FROM failures").fetchall() == [
        ("debt-cycles", 4, "survey", "rate limited"),
        ("debt-cycles", 6, "draft", None),
        ("debt-cycles", 7, "", "gave up"),
    ]
    first = shell.execute("SELECT * FROM journal LIMIT 1").fetchone()
    assert first == (
        "debt-cycles",
        1,
        "2023-11-14T22:13:20.250Z",
        "step.started",
        "survey",
        "key-1",
        "{}",
        "{}",
    )
    shell.close()


def test_a_store_in_memory_backed_files_is_warned_about() -> None:
    """tmpfs keeps every promise until the reboot; people should know."""
    directory = Path(f"/dev/shm/holdfast-{os.getpid()}")  # the very thing to be warned about
    store = SqliteStore(directory / "x.db")
    try:
        (found,) = [finding for finding in store.examine() if finding.subject == "file system"]
        assert found.verdict == "warning"
        assert "not durable storage" in found.text
    finally:
        store.close()
        for entry in directory.iterdir():
            entry.unlink()
        directory.rmdir()


def test_the_examination_tells_what_it_looked_at(store: SqliteStore) -> None:
    """Version, settings, file system, space, sync time, WAL, structure, events, runs, records, blobs; and leaves nothing behind."""
    before = sorted(entry.name for entry in Path(store.path).parent.iterdir())
    store.create_run(a_run("r"))
    subjects = [finding.subject for finding in store.examine()]
    assert subjects == [
        "sqlite",
        "settings (synced)",
        "settings (flushed)",
        "file system",
        "free space",
        "sync",
        "wal",
        "structure",
        "events",
        "runs",
        "records",
        "addresses",
        "heads",
    ]
    assert sorted(entry.name for entry in Path(store.path).parent.iterdir()) == before


WRITES_AND_EXITS = """
import sys, holdfast
for number in range(50):
    with holdfast.run(f"r{number}", store=sys.argv[1]) as run:
        run.think("done")
"""


def test_a_process_that_exits_leaves_one_file(path: Path) -> None:
    """Though it never closed its store. Planted: without the exit handler, the WAL stayed, as large as the file."""
    subprocess.run([sys.executable, "-c", WRITES_AND_EXITS, path], check=True)
    wal = path.with_name(path.name + "-wal")
    assert not wal.exists() or wal.stat().st_size == 0
    store = SqliteStore(path)
    assert len(store.list_runs(limit=100)) == 50
    store.close()


def test_an_exit_waits_for_nobody(path: Path, store: SqliteStore) -> None:
    """A reader keeps the WAL from being folded in; then it stays, and the process ends at once. Planted: with the
    usual busy timeout the exit took ten seconds."""
    store.create_run(a_run("before"))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM runs").fetchone()
    # Only the exit is timed, from the last line to the last handler: how long Python takes to start says nothing.
    program = (
        "import atexit, time; atexit.register(lambda: print(time.monotonic() - last))"
        f"{WRITES_AND_EXITS}last = time.monotonic()"
    )
    done = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True)
    assert float(done.stdout) < 8
    assert path.with_name(path.name + "-wal").stat().st_size > 0
    reader.close()
    assert len(store.list_runs(limit=100)) == 51
