"""From format 1 to format 2: read as it is, brought over by the first write, whole or not at all, in the middle of a run."""

import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.migrations import program

import holdfast
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.locks.owners import Owners
from holdfast.stores.url import place_of
from holdfast.testing.store_rules.builders import AT, a_run

OLD = Path(__file__).parent / "golden" / "format-1.db"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store of format 1."""
    program.ran.clear()
    return Path(shutil.copy(OLD, tmp_path / "holdfast.db"))


def version_of(place: Path) -> int:
    connection = apsw.Connection(str(place))
    try:
        return int(connection.pragma("user_version"))
    finally:
        connection.close()


def failures(place: Path) -> list[str]:
    store = SqliteStore(place)
    try:
        return [finding.text for finding in store.examine() if finding.verdict == "failure"]
    finally:
        store.close()


def test_reading_changes_nothing(place: Path) -> None:
    """Runs, events, blobs, records, the examination, opening and closing: the file is what it was, byte for byte."""
    before = place.read_bytes()
    store = holdfast.store(place)
    assert {info.run for info in store.runs()} == {"golden", "open", "doubtful"}
    events = store.events("golden", whole=True)
    assert events
    assert not any(event.chain for event in events)
    assert [finding for finding in store.examine() if finding.verdict == "failure"] == []
    with holdfast.run("golden", goal="stay readable", inputs={"n": 1}, store=place) as run:
        assert program.body(run) == run.result
    store._port.scan_records("facts", limit=9)
    store._port.get_record("facts", "x")
    store._port.sync()
    store.close()
    assert place.read_bytes() == before
    assert program.ran == []


def test_the_first_write_brings_it_over(place: Path) -> None:
    """The run goes on in its middle; old events stay as they were, and the new ones are chained from the run's birth on."""
    old = holdfast.store(place).events("open", whole=True)
    with holdfast.run("open", store=place) as run:
        assert program.body(run)["text"] == 50_000
        assert run.step("new", str.upper, "x") == "X"
        assert run.state["facts"][0] == program.Fact("DE", Decimal("1.50"))
    assert program.ran == []
    events = holdfast.store(place).events("open", whole=True)
    assert events[: len(old)] == old
    assert all(event.chain for event in events[len(old) :])
    holdfast.store(place).close()
    assert version_of(place) == 2
    assert failures(place) == []


def test_a_reader_notices_that_another_process_brought_it_over(place: Path) -> None:
    """A handle that was opened before reads chains and checks rows from then on, and writes without doing it again."""
    reader = SqliteStore(place)
    assert reader.find_run("open") is not None
    writer = SqliteStore(place)
    writer.put_record("s", "k", b"1", revision=0)
    writer.create_run(a_run("r"))
    connection = apsw.Connection(str(place))
    connection.execute("UPDATE records SET body = x'32' WHERE space = 's'")
    connection.execute("UPDATE runs SET body = x'32' WHERE run = 'r'")
    connection.close()
    with pytest.raises(holdfast.Corrupt):
        reader.get_record("s", "k")
    with pytest.raises(holdfast.Corrupt):
        reader.find_run("r")
    assert reader.put_record("s", "k", b"2", revision=0)
    assert reader.create_run(a_run("q", created_at=AT + 1))
    reader.close()
    writer.close()


def test_every_view_is_there(place: Path) -> None:
    """For people with the sqlite3 shell."""
    SqliteStore(place).create_run(a_run("r"))
    connection = apsw.Connection(str(place))
    for view in ("journal", "tool_counts", "failures", "model_costs"):
        connection.execute(f"SELECT * FROM {view}").fetchall()
    assert connection.execute("SELECT count(*) FROM journal").get > 10
    store, crc = connection.execute("SELECT store, crc FROM meta").fetchone() or ("", None)
    assert len(str(store)) == 32
    assert crc is not None
    connection.close()


def test_a_new_store_and_a_migrated_one_hold_the_same(place: Path, tmp_path: Path) -> None:
    """The same tables with the same columns, the same indexes and views; only the order of the columns differs."""

    def shape(path: Path) -> dict[tuple[str, str], list[str]]:
        connection = apsw.Connection(str(path))
        names: Any = connection.execute("SELECT type, name FROM sqlite_schema").fetchall()
        found = {
            (kind, name): sorted(str(row[1:4]) for row in connection.execute(f"PRAGMA table_xinfo({name})"))
            for kind, name in names
        }
        connection.close()
        return found

    SqliteStore(tmp_path / "new.db").close()
    SqliteStore(place).create_run(a_run("r"))
    assert shape(place) == shape(tmp_path / "new.db")


KILLED = """
import os, sys
import apsw
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import a_run

left = int(sys.argv[2])

def strike(*_):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return True

store = SqliteStore(sys.argv[1])
store._database.synced.exec_trace = strike
store.create_run(a_run("late"))
os._exit(0)
"""


def test_killed_at_every_statement_it_is_of_one_format_or_the_other(place: Path) -> None:
    """Before each statement of the first write, from the transaction's beginning to its commit; and then it goes on."""
    seen = set()
    for number in range(100):
        for left in place.parent.glob("holdfast.db*"):
            left.unlink()
        shutil.copy(OLD, place)
        ended = subprocess.run(
            [sys.executable, "-c", KILLED, str(place), str(number)], check=False, env={**os.environ}
        )
        assert ended.returncode in {0, 9}
        seen.add(version_of(place))
        assert failures(place) == [], number
        with holdfast.run("open", store=place) as run:
            assert program.body(run)["text"] == 50_000
            run.step("new", str.upper, "x")
        holdfast.store(place).close()
        assert version_of(place) == 2
        assert failures(place) == [], number
        if ended.returncode == 0:
            break
    else:
        raise AssertionError("it never came to its end")
    assert number > 10
    assert seen == {1, 2}
    assert program.ran == []


def test_it_is_not_changed_under_an_older_process(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """StoreBusy for whoever writes; reading works on; and once that process is gone, it is brought over."""
    store = SqliteStore(place)
    monkeypatch.setattr(Owners, "is_older_alive", lambda _: True)
    for _ in range(2):
        with pytest.raises(holdfast.StoreBusy, match="older Holdfast"):
            store.create_run(a_run("r"))
        assert store.find_run("open") is not None
    assert version_of(place) == 1
    monkeypatch.undo()
    assert store.create_run(a_run("r"))
    assert version_of(place) == 2
    store.close()


_OLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 4_711)
print("held", flush=True)
sys.stdin.read()
"""


def test_an_older_process_is_known_by_the_kind_of_its_lock(place: Path) -> None:
    """It holds its byte by a lock of the process, as Holdfast did up to format 1; ours belong to descriptors."""
    store = SqliteStore(place)
    other = SqliteStore(place)
    side = str(place.with_name(place.name + "-owners"))
    older = subprocess.Popen(
        [sys.executable, "-c", _OLDER, side], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert older.stdout is not None
    assert older.stdout.readline() == "held\n"
    with pytest.raises(holdfast.StoreBusy, match="older Holdfast"):
        store.create_run(a_run("r"))
    older.communicate("", timeout=60)
    assert store.create_run(a_run("r"))
    assert version_of(place) == 2
    store.close()
    other.close()


def test_two_processes_that_come_at_once_bring_it_over_once(place: Path) -> None:
    """Both write; the second finds it done."""
    text = KILLED.replace('a_run("late")', "a_run(sys.argv[3])")
    started = [
        subprocess.Popen([sys.executable, "-c", text, str(place), "1000", f"run-{number}"])
        for number in range(4)
    ]
    assert [one.wait(60) for one in started] == [0] * 4
    store = SqliteStore(place)
    assert {f"run-{number}" for number in range(4)} <= {row.run for row in store.list_runs(limit=20)}
    store.close()
    assert failures(place) == []


# -- PostgreSQL -------------------------------------------------------------------------------------------------

TO_FORMAT_1 = """
ALTER TABLE events DROP COLUMN chain;
ALTER TABLE runs DROP COLUMN crc, DROP COLUMN status_crc;
ALTER TABLE records DROP COLUMN crc;
ALTER TABLE meta DROP COLUMN store, DROP COLUMN crc;
UPDATE meta SET format = 1;
"""


def old_postgres(url: str) -> None:
    """Make a store of what one of this format holds, as format 1 had it."""
    store = PostgresStore(place_of(url).name, place_of(url).password)
    store._database.write(lambda c: c.execute(TO_FORMAT_1), synced=True)
    store.close()


class Unfinished(Exception):
    """Leaves the run to be resumed."""


def test_a_postgres_store_is_brought_over_when_it_is_opened(postgres_url: str) -> None:
    """Its runs go on; what was there stays unchained, and nothing of it is damage."""
    with pytest.raises(Unfinished), holdfast.run("r", store=postgres_url) as run:
        run.step("a", str, 1)
        raise Unfinished
    holdfast.store(postgres_url).close()
    old_postgres(postgres_url)
    with holdfast.run("r", store=postgres_url) as run:
        assert run.step("a", str, 1) == "1"
        run.step("b", str, 2)
    store = holdfast.store(postgres_url)
    chains = [bool(event.chain) for event in store.events("r", whole=True)]
    assert chains == sorted(chains)
    assert set(chains) == {False, True}
    assert [f.text for f in store.examine() if f.verdict == "failure"] == []
    store.close()


def test_a_postgres_store_is_not_changed_under_an_older_holder(postgres_url: str) -> None:
    """While one holds a run in it and beats: StoreBusy, and nothing was changed."""
    store = PostgresStore(place_of(postgres_url).name, place_of(postgres_url).password)
    store.create_run(a_run("r"))
    store._database.write(
        lambda c: c.execute(
            "UPDATE runs SET owner = '1@elsewhere/x', beat_at = extract(epoch FROM now()), lease_s = 60"
        ),
        synced=True,
    )
    store.close()
    old_postgres(postgres_url)
    with pytest.raises(holdfast.StoreBusy, match="older Holdfast works on run r"):
        PostgresStore(place_of(postgres_url).name, place_of(postgres_url).password)


_KILLED_SERVER = """
import os, sys
import psycopg
from holdfast.stores.postgres import create

left = int(sys.argv[2])
execute = psycopg.Connection.execute

def struck(self, *given, **options):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return execute(self, *given, **options)

psycopg.Connection.execute = struck
import holdfast
list(holdfast.store(sys.argv[1]).runs())
os._exit(0)
"""
# `make upgrade` strikes everywhere
EVERY = 1 if os.environ.get("HOLDFAST_UPGRADE") else 6


def test_killed_at_every_statement_a_postgres_store_is_of_one_format_or_the_other(postgres_url: str) -> None:
    """Whoever opens it next brings it over, and its run goes on."""
    with pytest.raises(Unfinished), holdfast.run("r", store=postgres_url) as run:
        run.step("a", str, 1)
        raise Unfinished
    holdfast.store(postgres_url).close()
    old_postgres(postgres_url)
    killed = 0
    for number in range(0, 100, EVERY):
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _KILLED_SERVER, postgres_url, str(number)], check=False
        )
        assert ended.returncode in {0, 9}
        if ended.returncode == 0:
            break
        killed += 1
    else:
        raise AssertionError("it never came to its end")
    assert killed * EVERY > 8
    with holdfast.run("r", store=postgres_url) as run:
        assert run.step("a", str, 1) == "1"
    store = holdfast.store(postgres_url)
    assert [f.text for f in store.examine() if f.verdict == "failure"] == []
    store.close()
