"""How many requests it takes: what is asked again and again must not cost more the longer it is asked, or the more there is."""

import uuid
from collections.abc import Iterator

import pytest
from tests.support.aws.proxy import Proxy, proxy_to
from tests.support.aws.server import table_for

from holdfast.clock import SystemClock
from holdfast.model.store_rows import Cursor, inbox_space
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.dynamodb.table.actions import update
from holdfast.stores.dynamodb.table.keys import fork_key, row_key
from holdfast.testing.store_rules.builders import AT, a_run, an_append, append, held


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxy_to(table_for("requests").endpoint) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: Proxy) -> Iterator[DynamoStore]:
    store = DynamoStore(table_for(f"requests-{uuid.uuid4().hex}")._replace(endpoint=proxy.address))
    yield store
    store.close()


def test_waiting_in_short_turns_becomes_slower(store: DynamoStore, proxy: Proxy) -> None:
    """As tasks of an event loop do, 0.2 seconds at a time. With a pace that begins anew in each turn there are four looks a
    turn; this is about ten in two seconds, each of a read of the row and a count of the letters."""
    fence = held(store)
    before = proxy.seen.copy()
    for _ in range(10):
        assert store.wait({"r": Cursor(fence, 0)}, timeout_s=0.2) == frozenset()
    spent = proxy.seen - before
    assert spent["BatchGetItem"] <= 10
    assert spent["Query"] <= 10
    append(store, an_append("r", fence, 0))
    began = SystemClock.monotonic()
    while not store.wait({"r": Cursor(fence, 0)}, timeout_s=0.2):
        assert SystemClock.monotonic() - began < 60.0
    assert store.wait({"r": Cursor(fence, 1)}, timeout_s=0.0) == frozenset()


def test_waiting_for_others_too_holds_nobody_up(store: DynamoStore) -> None:
    """A run that was waited for in vain for a while, and one that is new: the new one is looked at as often as any; and
    when one has moved the answer has all that did."""
    old, new = held(store, "old"), held(store, "new")
    for _ in range(5):
        assert store.wait({"old": Cursor(old, 0)}, timeout_s=0.2) == frozenset()
    both = {"old": Cursor(old, 0), "new": Cursor(new, 0)}
    append(store, an_append("old", old, 0))
    store.put_record(inbox_space("new"), "l", b"", revision=0)
    assert store.wait(both, timeout_s=60.0) == {"old", "new"}


def test_a_prefix_is_not_looked_for_among_all_runs(store: DynamoStore, proxy: Proxy) -> None:
    """Only ids that begin so are read, and only the rows of the page; in the order of creation, a page at a time."""
    for number in range(12):
        store.create_run(a_run(f"daily.{number:02d}", created_at=AT + 100 - number))
        store.create_run(a_run(f"other.{number:02d}", created_at=AT + number))
    before = proxy.seen.copy()
    read: list[str] = []
    page = store.list_runs(limit=5, prefix="daily.")
    while page:
        read += [row.run for row in page]
        page = store.list_runs(limit=5, prefix="daily.", before=page[-1])
    assert read == [f"daily.{number:02d}" for number in range(12)]
    spent = proxy.seen - before
    assert spent == {"Query": 5, "BatchGetItem": 3}, (
        "pages of 5, 5 and 2; a short page asks once more; an empty one ends"
    )
    assert store.list_runs(limit=5, prefix="nobody") == []


def test_forks_are_not_looked_for_among_all_runs(store: DynamoStore, proxy: Proxy) -> None:
    """The row, the notes of a page, its rows; a run that has none costs a read of its row. Listing all runs to find them
    is a query and two batches here, and grows with the table."""
    for number in range(120):
        store.create_run(a_run(f"r{number:03d}"))
    for number in range(3):
        held(store, f"f{number}", origin="r000", origin_seq=1)
    before = proxy.seen.copy()
    assert [row.run for row in store.list_forks("r000", limit=3)] == ["f0", "f1", "f2"]
    assert proxy.seen - before == {"GetItem": 1, "Query": 1, "BatchGetItem": 1}
    before = proxy.seen.copy()
    assert store.list_forks("r001", limit=3) == []
    assert proxy.seen - before == {"GetItem": 1}


def test_forks_from_before_there_were_notes_are_found(store: DynamoStore, proxy: Proxy) -> None:
    """A table that an earlier version has written: found by a look through all rows, once."""
    for fork in ("a", "b"):
        held(store, fork, origin="r", origin_seq=1)
    table = store._table
    table.delete_all([fork_key("r", "a"), fork_key("r", "b")])
    assert table.update(update(row_key("r"), "REMOVE #noted"))
    assert [row.run for row in store.list_forks("r", limit=9)] == ["a", "b"]
    before = proxy.seen.copy()
    assert [row.run for row in store.list_forks("r", limit=2)] == ["a", "b"]
    assert proxy.seen - before == {"GetItem": 1, "Query": 1, "BatchGetItem": 1}
