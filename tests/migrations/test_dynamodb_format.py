"""The marks of a DynamoDB table's format: an older Holdfast changes no run of this one, and this one none of a newer.

Format 1 had no mark to look at. Its conditions are repeated here as it wrote them; the real program of format 1 was run
against such a table once and failed in each of these places.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.aws.server import table_for

from holdfast.errors import NewerFormat
from holdfast.model.store_rows import Lease
from holdfast.stores.dynamodb.format_mark import FORMAT, MARK_KEY
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.dynamodb.table.actions import put, update
from holdfast.stores.dynamodb.table.keys import row_key
from holdfast.testing.store_rules.builders import AT, a_run, an_append, append, delete_run, held, revision_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DynamoStore]:
    store = DynamoStore(table_for(tmp_path))
    yield store
    store.close()


def _as_format_1(store: DynamoStore, run: str) -> None:
    """Make a run what an older Holdfast would have made."""
    change = "SET #fence = #fence2 REMOVE #fence2, #format, #crc, #status_crc"
    assert store._table.update(update(row_key(run), change))


def _old_append(store: DynamoStore, run: str, fence: int, head: int) -> bool:
    """The update of the row that format 1 makes in the transaction of each append."""
    row = store._table.get(row_key(run))
    assert row is not None
    told = {"fence": fence, "after": head, "journal": row["journal"], "head": head + 1, "status": "failed"}
    guard = "#fence = :fence AND #head = :after AND #journal = :journal"
    return store._table.update(update(row_key(run), "SET #head = :head, #status = :status", guard, **told))


def test_an_older_version_neither_takes_nor_appends_to_a_run_of_this_format(store: DynamoStore) -> None:
    """It reads ``fence`` of the row before it takes, claims, deletes or forks a run, and compares it in each append."""
    fence = held(store)
    append(store, an_append("r", fence, 0))
    row = store._table.get(row_key("r"))
    assert row is not None
    assert "fence" not in row
    assert row["format"] == FORMAT
    assert not _old_append(store, "r", fence, 1)
    assert append(store, an_append("r", fence, 1)) == 2


def test_a_holder_of_format_1_goes_on_until_its_run_is_taken(store: DynamoStore) -> None:
    """Changing the row under it leaves its format alone, so that a status it writes without a checksum is no damage; whoever
    takes the run makes it one of this format, and the older one appends nothing more."""
    fence = held(store)
    _as_format_1(store, "r")
    assert store.swap_run("r", revision=revision_of(store, "r"), status="running", body=b'{"goal":"y"}')
    assert _old_append(store, "r", fence, 0)
    found = store.find_run("r")
    assert found is not None
    assert (found.head, found.status, found.damage) == (1, "failed", "")
    grant = store.acquire("r", at=AT, lease_s=30.0, over=Lease(fence, beat=0))
    assert grant.granted
    assert grant.lease.fence == fence + 1
    assert not _old_append(store, "r", fence, 1)
    assert append(store, an_append("r", fence + 1, 1)) == 2


def test_a_run_of_format_1_can_be_deleted_and_its_fence_stays(store: DynamoStore) -> None:
    """A new run of that name begins above the fence of the old one, whichever format each is of."""
    fence = held(store)
    _as_format_1(store, "r")
    assert delete_run(store, "r", fence=fence, revision=revision_of(store, "r"))
    assert held(store) == fence + 2  # it begins one above, and each lease is one more
    assert delete_run(store, "r", fence=fence + 2, revision=revision_of(store, "r"))
    row = store._table.get(row_key("r"))
    assert row is not None
    assert (row["gone"], row["fence"]) == (True, fence + 3), "where format 1 looks for it"


def test_an_append_without_a_lease_makes_the_run_one_of_this_format(store: DynamoStore) -> None:
    """Threads of other frameworks are written by nobody's lease: their runs change their format with the first append."""
    assert store.create_run(a_run("r"))
    _as_format_1(store, "r")
    assert append(store, an_append("r", 0, 0)) == 1
    row = store._table.get(row_key("r"))
    assert row is not None
    assert "fence" not in row
    assert row["format"] == FORMAT
    assert not _old_append(store, "r", 0, 1)


def test_a_newer_run_is_refused(store: DynamoStore) -> None:
    """By each verb that would read its row, and by the listing; a run of this format beside it is usable."""
    held(store, "newer")
    fence = held(store, "r")
    assert store._table.update(update(row_key("newer"), "SET #format = :format", format=FORMAT + 1))
    with pytest.raises(NewerFormat, match="its format is 3; this Holdfast knows formats up to 2"):
        store.find_run("newer")
    with pytest.raises(NewerFormat):
        store.list_runs(limit=10)
    with pytest.raises(NewerFormat):
        store.acquire("newer", at=AT, lease_s=30.0)
    assert append(store, an_append("r", fence, 0)) == 1


def test_a_newer_table_is_refused(store: DynamoStore, tmp_path: Path) -> None:
    """By the first request of each handle. A new table has the mark; one made by hand has none, and is usable."""
    mark = store._table.get(MARK_KEY)
    assert mark is not None
    assert mark["format"] == FORMAT
    assert store._table.transact([put({**MARK_KEY, "format": FORMAT + 1})])
    other = DynamoStore(table_for(tmp_path))
    with pytest.raises(NewerFormat, match="its format is 3; this Holdfast knows formats up to 2"):
        other.create_run(a_run("r"))
    other.close()
    store._table.delete_all([MARK_KEY])
    other = DynamoStore(table_for(tmp_path))
    assert other.create_run(a_run("r"))
    other.close()
