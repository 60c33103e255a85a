"""What is said to a PostgreSQL server: one append is one statement, one transaction and one round trip.

Counted on the line. A round trip is what a remote server costs, and a statement what a busy one does.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
from tests.support.postgres.proxy import Proxy

from holdfast import limits
from holdfast.model.store_rows import Append, Appended, Blob, Refusal, Removal, inbox_space
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.url import place_of
from holdfast.testing.store_rules.builders import AT, an_append, an_event, append, held

ONE = {"statements": 1, "syncs": 1, "round trips": 1}


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    port = urlsplit(postgres_url).port
    assert port is not None
    with Proxy(port) as made:
        yield made


@pytest.fixture
def store(postgres_url: str, proxy: Proxy) -> Iterator[PostgresStore]:
    place = place_of(postgres_url.replace(f":{urlsplit(postgres_url).port}/", f":{proxy.port}/"))
    made = PostgresStore(place.name, place.password)
    yield made
    made.close()


def spent(proxy: Proxy, work: Callable[[], object]) -> Counter[str]:
    before = proxy.traffic.counts.copy()
    work()
    return proxy.traffic.since(before)


def read_back(store: PostgresStore, run: str) -> list[int]:
    return [event.seq for event in store.read_events(run, limit=limits.EVENT_PAGE_MAX)]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 64])
def test_the_events_of_an_append_are_one_statement(store: PostgresStore, proxy: Proxy, count: int) -> None:
    """However many they are; guarded and committed by itself. The first time on a connection it is also prepared, in the
    same round trip."""
    fence = held(store)
    first = spent(proxy, lambda: append(store, an_append("r", fence, 0, count)))
    assert first - Counter(prepared=1) == ONE
    later = iter([an_append("r", fence, number * count, count) for number in range(1, 4)])
    for _ in range(3):
        assert spent(proxy, lambda: append(store, next(later))) == ONE
    assert read_back(store, "r") == list(range(1, 4 * count + 1))


def test_appends_to_many_runs_are_one_statement(store: PostgresStore, proxy: Proxy) -> None:
    """As many async runs append in one tick: each an intent and an outcome, some only one event."""
    fences = {f"r{number}": held(store, f"r{number}") for number in range(50)}

    def items(after: int) -> list[Append]:
        return [an_append(run, fence, after, 2) for run, fence in fences.items()]

    def accepted(batch: list[Append]) -> None:
        assert [Appended(item.events[-1].seq) for item in batch] == store.append(batch)

    assert spent(proxy, lambda: accepted(items(0))) - Counter(prepared=1) == ONE
    assert spent(proxy, lambda: accepted(items(2))) == ONE
    mixed = [an_append(run, fence, 4, 1 + number % 3) for number, (run, fence) in enumerate(fences.items())]
    assert spent(proxy, lambda: accepted(mixed)) == ONE
    assert [len(read_back(store, f"r{number}")) for number in (0, 1, 2)] == [5, 6, 7]


def test_appends_to_one_run_after_each_other_are_one_statement(store: PostgresStore, proxy: Proxy) -> None:
    """As concurrent calls of one run append: one after the other, and beside those of other runs."""
    fence, other = held(store), held(store, "other")
    batch = [
        an_append("r", fence, 0, 2),
        an_append("other", other, 0),
        an_append("r", fence, 2),
        an_append("r", fence, 3),
    ]
    assert spent(proxy, lambda: store.append(batch)) - Counter(prepared=1) == ONE
    assert read_back(store, "r") == [1, 2, 3, 4]
    assert read_back(store, "other") == [1]


def test_a_refused_item_takes_along_only_what_follows_it(store: PostgresStore) -> None:
    """Items of one run that are sent as one are judged one by one: the second of these was written by a first try."""
    fence = held(store)
    append(store, an_append("r", fence, 0, 2))
    batch = [an_append("r", fence, 0, 2), an_append("r", fence, 2), an_append("r", fence, 4)]
    outcomes = store.append(batch)
    assert isinstance(outcomes[0], Refusal)
    assert outcomes[0].reason == "conflict"
    assert outcomes[1] == Appended(3)
    assert isinstance(outcomes[2], Refusal)
    assert read_back(store, "r") == [1, 2, 3]


def test_what_comes_with_events_is_in_their_statement(store: PostgresStore, proxy: Proxy) -> None:
    """Blobs, letters that caused them, and a status."""
    fence = held(store)
    store.put_blobs([Blob("old", b"1")], at=AT)
    store.put_record(inbox_space("r"), "letter", b"", revision=0)
    full = an_append(
        "r", fence, 0, 2, blobs=(Blob("new", b"2"), Blob("old")), consumed=("letter",), status="running"
    )
    assert spent(proxy, lambda: append(store, full)) - Counter(prepared=1) == ONE
    blob = an_append("r", fence, 2, 2, blobs=(Blob("newer", b"3"),))
    assert spent(proxy, lambda: append(store, blob)) == ONE
    assert set(store.get_blobs(["old", "new", "newer"])) == {"old", "new", "newer"}
    assert store.scan_records(inbox_space("r"), limit=9) == []
    row = store.find_run("r")
    assert row is not None
    assert (row.status, row.head, row.revision) == ("running", 4, 2)
    assert spent(proxy, lambda: store.append([Append("r", fence, 4, (), status="failed")])) == ONE


def test_an_intent_that_is_sent_ahead_costs_no_round_trip(store: PostgresStore, proxy: Proxy) -> None:
    """Its answer is read with the outcome's. Answers are held back: a quick server's would come in between by chance."""
    fence = held(store)

    def step(after: int) -> None:
        append(store, an_append("r", fence, after, synced=False, hasty=True))
        append(store, an_append("r", fence, after + 1))

    step(0)
    proxy.traffic.hold_answers(statements=2)
    assert spent(proxy, lambda: step(2)) == {"statements": 2, "syncs": 2, "round trips": 1}


def test_bytes_and_texts_come_back_as_they_were(store: PostgresStore) -> None:
    """In each of the statements: NULs in names, empty bodies, bodies of every byte."""
    fence = held(store)
    names = ["", "a\0b", "\1", "größe"]
    for count in (1, 3, 12):
        head = len(read_back(store, "r"))
        events = tuple(
            an_event("r", seq, name=names[seq % 4], body=bytes(range(256)) * (seq % 3), fence=fence)
            for seq in range(head + 1, head + 1 + count)
        )
        append(store, Append("r", fence, head, events))
        assert store.read_events("r", after_seq=head, limit=count) == list(events)
    blob = (Blob("b", bytes(range(256))),)
    event = an_event("r", 17, name="a\0b", body=b"\0", fence=fence)
    append(store, Append("r", fence, 16, (event,), blobs=blob))
    assert store.read_events("r", after_seq=16, limit=1) == [event]
    assert store.get_blobs(["b"]) == {"b": bytes(range(256))}


def test_runs_are_deleted_by_as_many_statements_as_one(store: PostgresStore, proxy: Proxy) -> None:
    """Two locks, a look at the forks, a statement for each table and one for the records, two for the fences; begun and committed."""
    fences = {f"r{number}": held(store, f"r{number}") for number in range(65)}
    for run, fence in fences.items():
        append(store, an_append(run, fence, 0, 3))
        store.put_record("labels", f"{run}@x", b"label", revision=0)
    removals = [Removal(run, fence, 1, (("labels", f"{run}@x"),)) for run, fence in fences.items()]
    assert spent(proxy, lambda: store.delete_runs(removals[:1]))["statements"] == 12
    rest = spent(proxy, lambda: store.delete_runs(removals[1:]))
    assert (rest["statements"], rest["round trips"]) == (12, 12)
    assert store.list_runs(limit=9) == []
    assert store.scan_records("labels", limit=9) == []
