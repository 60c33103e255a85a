"""A bit that flipped in a row that is no event: named, never used, and no reason to lose the rest.

On SQLite every column of every table is tried, by changing its bytes in the file's tables behind the store's back. What no
checksum covers is listed, with the reason.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
from tests.support.stores import over_shared_stores

import holdfast
from holdfast.model.store_rows import inbox_space
from holdfast.stores.port import StorePort
from holdfast.stores.sqlite import SqliteStore

UNCOVERED: Final = {
    ("runs", "id"): "it names no row any more: structure, and every event of it",
    ("runs", "owner"): "changes with the lease; whoever holds it is told by its fence",
    ("runs", "beat"): "changes with every beat",
    ("runs", "since"): "changes with the lease",
    ("runs", "beat_at"): "changes with every beat",
    ("runs", "lease_s"): "changes with the lease",
    ("runs", "revision"): "changes with every status; a wrong one refuses a change, and is read again",
    ("runs", "due_at"): "changes with the queue",
    ("runs", "fence"): "changes with the lease; a lower one than that of the last event is named",
    ("records", "id"): "says nothing",
    ("meta", "id"): "can only be 1",
    ("meta", "syncs"): "says nothing",
    ("blobs", "id"): "says nothing",
    ("blobs", "touched_at"): "how long an unused content is kept",
}
"""Columns without a checksum, and why."""
BY_CONTENT: Final = {("blobs", "address"), ("blobs", "data")}
"""A content is known by its address, which is its hash: checked whenever it is read."""


# -- what it was about ------------------------------------------------------------------------------------------


def record_of(port: StorePort, space: str) -> Any:
    (record,) = port.scan_records(space, limit=9, damaged=True)
    return record


def overwrite(url: str, space: str, change: Callable[[bytes], bytes]) -> None:
    """Change the one record of a space, behind the store's back."""
    port = holdfast.store(url)._port
    record = record_of(port, space)
    body = change(record.body)
    assert body != record.body
    if url.startswith("sqlite"):
        assert isinstance(port, SqliteStore)
        connection = apsw.Connection(str(port.path))
        connection.execute("UPDATE records SET body = ? WHERE space = ?", (body, space))
        connection.close()
    elif url.startswith("postgresql"):
        port._database.write(  # type: ignore[attr-defined]
            lambda c: c.execute("UPDATE records SET body = %s WHERE space = %s", (body, space)), synced=True
        )
    else:
        from holdfast.stores.dynamodb.table.actions import update
        from holdfast.stores.dynamodb.table.keys import record_key

        table = port._table  # type: ignore[attr-defined]
        assert table.update(update(record_key(space, record.key), "SET #body = :body", body=body))


@over_shared_stores
def test_a_waiting_answer_that_changed_is_not_taken_in(
    shared_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One bit made 900 of 100, and the run finished with it. It waits on, says so, and takes the answer that is given again."""

    def program() -> object:
        with holdfast.run("r", store=shared_url) as run:
            run.finish(run.ask("How much?", returns=int))
        return run.result

    with pytest.raises(holdfast.AwaitingAnswer):
        program()
    store = holdfast.store(shared_url)
    store.answer("r", 100)
    overwrite(shared_url, inbox_space("r"), lambda body: body.replace(b"100", b"900"))
    with pytest.raises(holdfast.AwaitingAnswer):
        program()
    assert "fails its checksum" in caplog.text
    assert any("inbox/r" in f.text for f in store.examine() if f.verdict == "failure")
    store.answer("r", 100)
    assert program() == 100


@over_shared_stores
def test_an_altered_fact_is_not_given_out(shared_url: str) -> None:
    """It is not recalled; asked for by its name it is Corrupt; remembered again, it is back. Others are found."""
    store = holdfast.store(shared_url)
    kept = store.memory.remember("The limit for refunds is 100 euros")
    overwrite(shared_url, "facts", lambda body: body.replace(b"100", b"900"))
    other = store.memory.remember("Refunds take three days")
    assert [one.fact.id for one in store.memory.recall("refunds limit days")] == [other.id]
    with pytest.raises(holdfast.Corrupt, match="facts"):
        store.memory.get(kept.id)
    store.memory.remember("The limit for refunds is 100 euros")
    found = [one.fact.text for one in store.memory.recall("limit for refunds")]
    assert "The limit for refunds is 100 euros" in found
    assert not any("900" in text for text in found)
    assert [f.text for f in store.examine() if f.verdict == "failure"] == []


# -- every column -----------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with one of everything, closed."""
    path = tmp_path / "whole.db"
    store = SqliteStore(path)
    with holdfast.run("gone", store=path) as run:
        run.step("a", str, 1)
    holdfast.store(path).erase("gone")
    with pytest.raises(holdfast.AwaitingAnswer), holdfast.run("r", store=path, goal="kelp") as run:
        run.step("big", str, "k" * 40_000)
        run.checkpoint({"a": 1})
        run.ask("How much?", returns=int)
    holdfast.store(path).fork("r@#4", as_="f")
    holdfast.store(path).answer("r", 100)
    holdfast.store(path).memory.remember("kelp holds fast")
    store.close()
    holdfast.store(path).close()
    return path


def columns(path: Path) -> Iterator[tuple[str, str]]:
    connection = apsw.Connection(str(path))
    for table in ("runs", "events", "records", "meta", "blobs"):
        for row in connection.execute(f"PRAGMA table_xinfo({table})"):
            if not row[6]:  # a column that is computed is not kept
                yield table, str(row[1])
    connection.close()


def changed(value: Any) -> Any:
    """The value with one bit of it flipped; what is empty gets one."""
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1, *value[1:]]) if value else b"\1"
    if isinstance(value, str):
        return chr(ord(value[0]) ^ 1) + value[1:] if value else "\1"
    if isinstance(value, float):
        return value + 1.0
    return 1 if value is None else value ^ 1


def test_a_flipped_bit_in_any_column_is_noticed(place: Path) -> None:
    """In each column of each table, row by row: doctor names it, unless the column is in the list of those that have no checksum.

    Planted: each of ``run_crc``, ``record_crc``, ``status_crc`` and ``meta_crc`` without one of its fields fails here.
    """
    unseen: list[tuple[str, str]] = []
    for table, column in columns(place):
        connection = apsw.Connection(str(place))
        rows: Any = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
        connection.close()
        assert rows, f"nothing lies in {table}"
        for rowid, value in rows:
            if (
                not is_named(place, table, column, rowid, changed(value))
                and (table, column) not in BY_CONTENT
            ):
                unseen.append((table, column))
    assert sorted(set(unseen) - set(UNCOVERED)) == []


def is_named(place: Path, table: str, column: str, rowid: int, value: Any) -> bool:
    copy = place.with_name("x.db")
    for left in place.parent.glob("x.db*"):
        left.unlink()
    copy.write_bytes(place.read_bytes())
    connection = apsw.Connection(str(copy))
    try:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, rowid))
    except apsw.Error:  # it cannot even be written
        return True
    finally:
        connection.close()
    store = SqliteStore(copy)
    try:
        return any(finding.verdict == "failure" for finding in store.examine())
    except holdfast.Corrupt:
        return True
    finally:
        store.close()


def test_a_name_that_is_no_text_any_more_hides_nobody_else(place: Path) -> None:
    """SQLite cannot give it out as text; the others are listed, and it is, too, as damaged."""
    connection = apsw.Connection(str(place))
    connection.execute("UPDATE runs SET birth = CAST(x'ff00fe' AS TEXT) WHERE run = 'f'")
    connection.execute("UPDATE records SET key = CAST(x'61ff' AS TEXT) WHERE space = 'facts'")
    connection.close()
    store = SqliteStore(place)
    rows = {row.run: row.damage for row in store.list_runs(limit=9)}
    assert rows["r"] == ""
    assert rows["f"]
    assert [row.run for row in store.list_runs(limit=9, before=store.list_runs(limit=1)[0])] == ["r"]
    with pytest.raises(holdfast.Corrupt, match="run f"):
        store.find_run("f")
    assert store.scan_records("facts", limit=9) == []
    (record,) = store.scan_records("facts", limit=9, damaged=True)
    assert store.scan_records("facts", after=record.key, limit=9, damaged=True) == []
    store.close()


@pytest.mark.parametrize("space", ["snapshots", "pins"])
def test_a_damaged_record_does_not_stand_in_the_way_of_erasing(tmp_path: Path, space: str) -> None:
    """What is kept under the run's name goes with it, readable or not."""
    path = tmp_path / "x.db"
    with holdfast.run("r", store=path) as run:
        run.step("a", str, 1)
    store = holdfast.store(path)
    store._port.put_record(space, "r@#2" if space == "pins" else "r@", b'{"place":"x","at":0}', revision=0)
    overwrite(store.url, space, lambda body: body.replace(b"x", b"y"))
    store.erase("r")
    assert store._port.scan_records(space, limit=9, damaged=True) == []


def test_a_fence_that_went_down_is_refused(tmp_path: Path) -> None:
    """It has no checksum, since it changes with the lease; but it never is lower than that of the last event."""
    path = tmp_path / "x.db"
    for number in range(6):
        with pytest.raises(ZeroDivisionError), holdfast.run("r", store=path) as run:
            run.step(f"s{number}", str, number)
            raise ZeroDivisionError
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE runs SET fence = 2")
    connection.close()
    with pytest.raises(holdfast.Corrupt, match="at fence 3, and event"), holdfast.run("r", store=path):
        pass
