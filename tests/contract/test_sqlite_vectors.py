"""The vectors of a SQLite store's index: in packs, each with its document, read once, and gone with it.

Planted once each, and caught here: a slot that is given again and not read again; a removed vector that is only marked; packs
that are never filled again; a pack that is read as far as it was full at the first time.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from holdfast.errors import Corrupt
from holdfast.model.search import EVENTS, EVERYWHERE, FACTS, Document
from holdfast.stores import vector_search
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.search import vector_packs
from holdfast.stores.sqlite.search.index import SqliteIndex
from holdfast.stores.sqlite.search.vector_packs import SLOTS

pytest.importorskip("numpy")
WIDTH = 16


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "x.db")
    yield store
    store.close()


def index_of(store: SqliteStore) -> SqliteIndex:
    index = store.find_index()
    assert index is not None
    return index


def vector_of(number: int, width: int = WIDTH) -> bytes:
    return random.Random(number).randbytes(width)


def document(number: int, *, key: str = "", version: str = "1", width: int = WIDTH) -> Document:
    key = key or f"k{number:06}"
    return Document(key, version, (f"t{number}",), vector_of(number, width), "m")


def nearest(
    index: SqliteIndex, number: int, *, space: str = FACTS, limit: int = 1, width: int = WIDTH
) -> Any:
    found = index.find_near(space, vector_of(number, width), "m", EVERYWHERE, limit=limit)
    return [(match.key, round(match.score, 4)) for match in found]


def rows(store: SqliteStore, statement: str) -> Any:
    with index_of(store)._database.read() as connection:
        return connection.execute(statement).fetchall()


def steps_of(index: SqliteIndex, work: Any) -> int:
    """How many steps SQLite takes for it on the connection that reads."""
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    reading = index._database.reading
    reading.set_progress_handler(count, 1)
    try:
        work()
    finally:
        reading.set_progress_handler(None)
    return taken


# -- what it takes ------------------------------------------------------------------------------------------------


def test_a_process_reads_packs_and_not_a_row_for_each_vector(store: SqliteStore, tmp_path: Path) -> None:
    """At its first search a few steps for each pack; at the next ones nothing that was read before."""
    index_of(store).put(FACTS, [document(number) for number in range(20 * SLOTS)])
    other = SqliteStore(tmp_path / "x.db")
    fresh = index_of(other)
    first = steps_of(fresh, lambda: nearest(fresh, 7))
    second = steps_of(fresh, lambda: nearest(fresh, 7))
    index_of(store).put(FACTS, [document(99_999)])
    third = steps_of(fresh, lambda: nearest(fresh, 99_999))
    other.close()
    assert first < 20 * 30
    assert second < 100
    assert third < 150


def test_what_a_fact_takes_does_not_grow(store: SqliteStore) -> None:
    """The pages that one more document writes, among few and among many."""
    index, written = index_of(store), list[int]()
    for many in (SLOTS, 20 * SLOTS):
        index.put(FACTS, [document(number) for number in range(many)])
        before = index._database.wal_pages
        for number in range(50_000, 50_010):
            index.put(FACTS, [document(number + many)])
        written.append(index._database.wal_pages - before)
    assert written[1] < 1.5 * written[0]


def test_slots_are_given_again(store: SqliteStore) -> None:
    """One fact that changes all the time, and now and then one that stays: no pack is left almost empty."""
    index = index_of(store)
    for number in range(5 * SLOTS):
        index.put(FACTS, [document(number, key="status", version=str(number))])
        index.drop(FACTS, "status", but=str(number))
        if number % 50 == 0:
            index.put(FACTS, [document(90_000 + number)])
    assert rows(store, "SELECT count(*) FROM packs") == [(1,)]
    index.check()


def test_empty_packs_go(store: SqliteStore) -> None:
    """By a removal of all documents in them, and by clearing a space; the other space stays."""
    index = index_of(store)
    index.put(FACTS, [document(number) for number in range(3 * SLOTS)])
    index.put(EVENTS, [document(number) for number in range(5)])
    index.drop_under(FACTS, "k")
    assert rows(store, "SELECT space FROM packs") == [(EVENTS,)]
    index.put(FACTS, [document(7)])
    assert nearest(index, 7) == [("k000007", 1.0)]
    index.clear(FACTS)
    assert nearest(index, 7) == []
    assert nearest(index, 3, space=EVENTS) == [("k000003", 1.0)]
    index.check()


# -- what is gone, is gone ------------------------------------------------------------------------------------------


def test_a_removed_vector_leaves_the_files(store: SqliteStore, tmp_path: Path) -> None:
    """It is overwritten in its pack at once; and is nowhere in the files after a thorough reclaim."""
    index = index_of(store)
    index.put(FACTS, [document(number, width=256) for number in range(300)])
    needle = vector_of(77, 256)
    index.drop(FACTS, "k000077")
    assert not [1 for (vectors,) in rows(store, "SELECT vectors FROM packs") if needle in vectors]
    store.reclaim(thoroughly=True)
    assert not [file for file in tmp_path.iterdir() if needle in file.read_bytes()]
    assert nearest(index, 78, width=256) == [("k000078", 1.0)]


def test_another_process_finds_what_took_a_slot_over(store: SqliteStore, tmp_path: Path) -> None:
    """It has read the pack when another document was in that slot. The old one is not found any more."""
    index = index_of(store)
    index.put(FACTS, [document(number) for number in range(2 * SLOTS)])
    other = SqliteStore(tmp_path / "x.db")
    beside = index_of(other)
    assert nearest(beside, 5) == [("k000005", 1.0)]
    index.drop(FACTS, "k000005")
    index.put(FACTS, [document(70_000)])
    assert rows(store, "SELECT count(*) FROM packs") == [(2,)]
    assert nearest(beside, 70_000) == [("k070000", 1.0)]
    assert nearest(beside, 5)[0][0] != "k000005"
    assert len(nearest(beside, 5, limit=9_999)) == 2 * SLOTS
    other.close()


# -- odd ones -------------------------------------------------------------------------------------------------------


def test_vectors_of_another_width_are_apart(store: SqliteStore) -> None:
    """A server may give longer vectors under the same name of its model."""
    index = index_of(store)
    index.put(FACTS, [document(1), document(2, width=24), document(3, width=24)])
    assert nearest(index, 1, limit=9) == [("k000001", 1.0)]
    assert {key for key, _ in nearest(index, 2, limit=9, width=24)} == {"k000002", "k000003"}
    index.check()


def test_a_document_that_is_given_twice_at_once_is_there_once(store: SqliteStore) -> None:
    """The last of them; and its vector once."""
    index = index_of(store)
    index.put(FACTS, [document(1, key="a"), document(2, key="a"), document(3, key="b")])
    index.put(FACTS, [document(4, key="a")])
    assert nearest(index, 4) == [("a", 1.0)]
    assert rows(store, f"SELECT sum({SLOTS} - free) FROM packs") == [(2,)]
    index.check()


def test_of_too_many_the_newest_are_compared(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first search, and after more have come; the others can still be removed."""
    monkeypatch.setattr(vector_search, "VECTORS_MAX", 2 * SLOTS)
    monkeypatch.setattr(vector_packs, "_PACKS_MAX", 2)
    index = index_of(store)
    index.put(FACTS, [document(number) for number in range(5 * SLOTS)])
    assert nearest(index, 5 * SLOTS - 1) == [(f"k{5 * SLOTS - 1:06}", 1.0)]
    assert len(nearest(index, 1, limit=9_999)) == 2 * SLOTS
    index.put(FACTS, [document(80_000)])
    assert nearest(index, 80_000) == [("k080000", 1.0)]
    assert len(nearest(index, 1, limit=9_999)) == 2 * SLOTS
    index.drop(FACTS, "k000001")
    index.check()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM packs",
        "UPDATE packs SET free = free + 1",
        "UPDATE packs SET ids = zeroblob(length(ids)), free = 128",
    ],
)
def test_packs_that_do_not_fit_the_documents_are_noticed(store: SqliteStore, damage: str) -> None:
    """By a check, and by what has to change them; not taken for empty ones."""
    index = index_of(store)
    index.put(FACTS, [document(number) for number in range(9)])
    with index._database.write(synced=True) as connection:
        connection.execute(damage)
    with pytest.raises(Corrupt):
        index.check()
    with pytest.raises(Corrupt):
        index.drop(FACTS, "k000003")


def test_a_kill_between_a_document_and_its_vector_leaves_neither(store: SqliteStore, tmp_path: Path) -> None:
    """They are one transaction: a reader sees both or none, also while it is open."""
    index = index_of(store)
    index.put(FACTS, [document(number) for number in range(SLOTS - 1)])
    before = nearest(index, 1, limit=9_999)

    class Killed(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vector_packs._Pack, "write", killed)
        with pytest.raises(Killed):
            index.put(FACTS, [document(5_000), document(5_001)])
        with pytest.raises(Killed):
            index.drop(FACTS, "k000001")
    assert nearest(index, 1, limit=9_999) == before
    index.check()
    connection = apsw.Connection(str(tmp_path / "x.db-search"), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("SELECT count(*) FROM documents").get == SLOTS - 1
    connection.close()


# -- in any order ---------------------------------------------------------------------------------------------------

ACTS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "many", "drop", "under", "clear"]), st.integers(0, 40), st.booleans()
    ),
    max_size=30,
)


@settings(max_examples=examples(30), deadline=None)
@given(ACTS)
def test_two_processes_find_what_there_is(tmp_path_factory: pytest.TempPathFactory, acts: Any) -> None:
    """Whatever the one or the other adds, replaces and removes: both find all of it, with its own cosine, and nothing else."""
    place = tmp_path_factory.mktemp("packs")
    stores = [SqliteStore(place / "x.db"), SqliteStore(place / "x.db")]
    there: dict[str, int] = {}
    serial = 0
    try:
        for verb, number, is_other in acts:
            index = index_of(stores[is_other])
            serial += 1
            if verb in ("put", "many"):
                some = [number] if verb == "put" else [*range(number * 10, number * 10 + 150)]
                index.put(FACTS, [document(serial * 1_000 + one, key=f"k{one:03}") for one in some])
                there |= {f"k{one:03}": serial * 1_000 + one for one in some}
            elif verb == "drop":
                index.drop(FACTS, f"k{number:03}")
                there.pop(f"k{number:03}", None)
            elif verb == "under":
                index.drop_under(FACTS, f"k{number % 10}")
                there = {key: one for key, one in there.items() if not key.startswith(f"k{number % 10}")}
            else:
                index.clear(FACTS)
                there = {}
            check_found(index_of(stores[not is_other]), there, number)
        index_of(stores[0]).check()
    finally:
        for store in stores:
            store.close()


def check_found(index: SqliteIndex, there: dict[str, int], number: int) -> None:
    found = nearest(index, number, limit=9_999)
    assert {key for key, _ in found} == {*there}
    assert len(found) == len(there)
    for key in [*there][:3]:
        assert (key, 1.0) in nearest(index, there[key], limit=3)
