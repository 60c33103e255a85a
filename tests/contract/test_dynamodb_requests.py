"""How many requests it takes: what is asked again and again must not cost more the longer it is asked, or the more there is."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from tests.support.aws.proxy import CUT_AFTER, Proxy, proxy_to
from tests.support.aws.server import table_for

import holdfast
from holdfast.clock import SystemClock
from holdfast.model.events import Kind
from holdfast.model.store_rows import Append, Cursor, Removal, inbox_space
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.dynamodb.table.actions import update
from holdfast.stores.dynamodb.table.keys import fork_key, row_key
from holdfast.testing.store_rules.builders import AT, a_run, an_append, an_event, append, held


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


# -- a run ----------------------------------------------------------------------------------------------------


def test_entering_a_new_run(store: DynamoStore, proxy: Proxy) -> None:
    """Its row and the table's format; the run, its lease and its start are written; letters and hooks are looked for.

    It was 19: the row was read ten times, and what this process had just written was read back.
    """
    first, handle = spent(proxy), holdfast.Store(store)
    run = holdfast.run("r", store=handle).open()
    assert first() == {"BatchGetItem": 1, "TransactWriteItems": 2, "UpdateItem": 1, "Query": 2}
    leaving = spent(proxy)
    run.close()
    assert leaving() == {"GetItem": 1, "TransactWriteItems": 2}
    second = spent(proxy)
    holdfast.run("s", store=handle).open().close()
    assert second().total() == 5 + 3, "the format and the hooks of a table are known by then"


def test_resuming_a_run(store: DynamoStore, proxy: Proxy) -> None:
    """The row, the lease, the events with a look at the row behind them, the letters, and the new attempt."""
    handle = holdfast.Store(store)
    with pytest.raises(ZeroDivisionError), holdfast.run("r", store=handle) as run:
        run.step("work", str, 1)
        raise ZeroDivisionError
    resuming = spent(proxy)
    run = holdfast.run("r", store=handle).open()
    assert resuming() == {"GetItem": 2, "UpdateItem": 1, "Query": 2, "TransactWriteItems": 1}
    step = spent(proxy)
    assert run.step("work", str, 1) == "1"
    assert step() == {}
    run.close()


def test_an_append_of_two_events_is_one_request(store: DynamoStore, proxy: Proxy) -> None:
    """As a read step makes one; and so are two such appends of different runs."""
    fence, other = held(store), held(store, "other")
    alone = spent(proxy)
    append(store, an_append("r", fence, 0, 2))
    assert alone() == {"TransactWriteItems": 1}
    together = spent(proxy)
    store.append([an_append("r", fence, 2, 2), an_append("other", other, 0, 2)])
    assert together() == {"TransactWriteItems": 1}


def test_a_lease_whose_answer_was_lost_is_ours(store: DynamoStore, proxy: Proxy) -> None:
    """The request is repeated and refused by its own success: the row tells whose taking it was."""
    store.create_run(a_run("r"))
    proxy.faults["UpdateItem"] = [CUT_AFTER]
    grant = store.acquire("r", at=AT, lease_s=30.0)
    assert grant.granted
    found = store.find_run("r")
    assert found is not None
    assert found.lease == grant.lease
    assert not store.acquire("r", at=AT, lease_s=30.0).granted, (
        "another taking of this process is another one"
    )


def spent(proxy: Proxy) -> Callable[[], Counter[str]]:
    """The requests since now, by operation."""
    before = proxy.seen.copy()
    return lambda: proxy.seen - before


def test_events_of_a_rare_kind_take_no_request_for_each_few_others(store: DynamoStore, proxy: Proxy) -> None:
    """One query looks at a megabyte. Planted: pages as large as what is wanted, so that one in 120 took eight queries."""
    fence = held(store)
    for first in (1, 61):
        kinds = [Kind.CHECKPOINT if seq == 119 else Kind.MARK for seq in range(first, first + 60)]
        events = tuple(an_event("r", seq, kind=kind, fence=fence) for seq, kind in enumerate(kinds, first))
        append(store, Append("r", fence, first - 1, events))
    before = proxy.seen.copy()
    assert [one.seq for one in store.read_events("r", kinds={Kind.CHECKPOINT}, limit=1)] == [119]
    assert [one.seq for one in store.read_events("r", kinds={Kind.MARK}, skip=117, limit=1)] == [118]
    assert store.count_kinds("r") == {Kind.MARK: 119, Kind.CHECKPOINT: 1}
    spent = proxy.seen - before
    assert spent["Query"] == 4, "one for the checkpoint, two for the mark, one for the counts"


def test_a_deleted_run_costs_a_few_requests(store: DynamoStore, proxy: Proxy) -> None:
    """Each goes in a transaction of its own, which needs no lease: what it has is looked for, deleted, and swept."""
    removals = []
    for number in range(3):
        append(store, an_append(f"r{number}", held(store, f"r{number}"), 0, 3))
        store.put_record("labels", f"r{number}@x", b"label", revision=0)
        removals.append(Removal(f"r{number}", 1, 1, (("labels", f"r{number}@x"),)))
    before = proxy.seen.copy()
    assert store.delete_runs(removals) == [True] * 3
    assert proxy.seen - before == {
        "GetItem": 3,
        "Query": 6,
        "BatchGetItem": 3,
        "TransactWriteItems": 3,
        "BatchWriteItem": 6,
    }


def test_a_run_with_many_records_takes_a_few_more_transactions(store: DynamoStore, proxy: Proxy) -> None:
    """As many as fit go with it, the others right behind it."""
    fence = held(store)
    keys = [f"r@{number}" for number in range(70)]
    for key in keys:
        store.put_record("labels", key, b"", revision=0)
    before = proxy.seen.copy()
    assert store.delete_runs([Removal("r", fence, 1, tuple(("labels", key) for key in keys))]) == [True]
    assert (proxy.seen - before)["TransactWriteItems"] == 3
    assert store.scan_records("labels", limit=99) == []
