"""What takes DynamoDB several requests, cut off before and after each of them: whole or not at all, and nothing is left over."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.aws.server import table_for

from holdfast.model.rows import Append, Blob, inbox_space
from holdfast.stores.dynamodb import blobs, logs, records, removing, sweeping, values
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.dynamodb.table import Table
from holdfast.stores.dynamodb.target import Target
from holdfast.testing.rules.making import AT, a_run, an_append, an_event, append, held, revision_of
from holdfast.testing.rules.removal import pruned

ADDRESS = "ab" * 32
LARGE = bytes(range(256)) * 120
LONG = bytes(range(250)) * 20
HEAD = 31


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long begins early, so that the steps are many and the bytes few. Nobody else stages anything meanwhile."""
    for module in (values, logs, records):
        monkeypatch.setattr(module, "PART_BYTES_MAX", 2_000)
    monkeypatch.setattr(blobs, "TRANSACTION_BYTES_MAX", 20_000)
    monkeypatch.setattr(removing, "ACTIONS_MAX", 30)
    monkeypatch.setattr(removing, "_LETTERS_MAX", 5)
    monkeypatch.setattr(sweeping, "ACTIONS_MAX", 12)
    monkeypatch.setattr(sweeping, "STAGED_S", -1.0)


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the process runs any more."""


class Fuse:
    """Lets so many requests of a handle happen and kills it then, before the next one or after it was taken."""

    def __init__(self, table: Table, left: int, *, after: bool) -> None:
        self._ask = table._patiently
        self._left, self._after = left, after
        self.blown = False
        table._patiently = self  # type: ignore[method-assign]

    def __call__(self, verb: str, **request: Any) -> Any:
        if self._left == 0:
            self.blown = True
            if self._after:
                self._ask(verb, **request)
        if self.blown:
            raise Killed
        self._left -= 1
        return self._ask(verb, **request)


def picture(store: DynamoStore) -> dict[str, Any]:
    """All that can be read."""
    return {
        "runs": {row.run: row for row in store.list_runs(limit=99)},
        "found": {run: store.find_run(run) for run in ("r", "copy")},
        "events": {run: store.read_events(run, limit=999) for run in ("r", "copy")},
        "sizes": {run: store.measure(run) for run in ("r", "copy")},
        "letters": [store.scan_records(inbox_space(run), limit=99) for run in ("r", "copy")],
        "records": store.scan_records("s", limit=9),
        "blobs": (store.scan_blobs(limit=9), store.get_blobs([ADDRESS])),
    }


def all_items(store: DynamoStore) -> list[dict[str, Any]]:
    """The whole table, as the service spells it."""
    pages = store._table._client.get_paginator("scan").paginate(TableName=store._table.target.table)
    return [item for page in pages for item in page["Items"]]


def hidden(store: DynamoStore) -> set[str]:
    """Partitions that nothing visible needs: journals that no row names, parts that no item names, markers."""
    rows = [store._table.get({"pk": f"run/{run}", "sk": "row"}) or {} for run in ("r", "copy")]
    needed = {f"log/{row['journal']}" for row in rows if "journal" in row}
    named: list[dict[str, Any]] = [*rows]
    for pk in ("space/s", "space/inbox/r", "space/inbox/copy", "blob/a", *needed):
        named += store._table.query(pk)
    needed |= {f"part/{item['stage']}" for item in named if "stage" in item}
    return {
        pk
        for pk in {item["pk"]["S"] for item in all_items(store)}
        if pk.startswith(("log/", "part/", "trash"))
    } - needed


def a_long_run(store: DynamoStore, run: str = "r", status: str = "running") -> None:
    """A run with more events than go at once, one of them long, a long body, and letters."""
    fence = held(store, run, status=status, body=LONG)
    append(store, Append(run, fence, 0, tuple(an_event("r", seq) for seq in range(1, 31))))
    append(store, Append(run, fence, 30, (an_event("r", 31, body=LONG),)))
    store.put_record(inbox_space(run), "long", LONG, revision=0)
    store.put_record(inbox_space(run), "short", b"x", revision=0)


def delete(store: DynamoStore) -> bool:
    return store.delete_run("r", fence=1, revision=1)


def replace(store: DynamoStore) -> bool:
    return store.replace_events(
        "r",
        fence=1,
        revision=1,
        after_seq=0,
        upto_seq=HEAD,
        events=[pruned("r", 1, 5), pruned("r", 6, HEAD)],
        blobs=[Blob(ADDRESS, b"content")],
    )


def adopt(store: DynamoStore) -> bool:
    return store.adopt_events("r", of="copy", fence=1, revision=1)


def put_large(store: DynamoStore) -> bool:
    store.put_blobs([Blob(ADDRESS, LARGE)], at=AT)
    return True


def rewrite_record(store: DynamoStore) -> bool:
    return store.put_record("s", "k", LONG[::-1], revision=1)


def drop_record(store: DynamoStore) -> bool:
    return store.delete_record("s", "k", revision=1)


def swap(store: DynamoStore) -> bool:
    return store.swap_run("r", revision=1, status="finished", body=b"short")


def consume(store: DynamoStore) -> bool:
    append(store, an_append("r", 1, HEAD, consumed=("long", "short"), blobs=(Blob(ADDRESS, LONG),)))
    return True


def drop_blob(store: DynamoStore) -> bool:
    return store.delete_blobs([ADDRESS], untouched_since=AT + 1) == 1


DEEDS = {
    deed.__name__: deed
    for deed in (delete, replace, adopt, put_large, rewrite_record, drop_record, swap, consume, drop_blob)
}


def prepared(target: Target, deed: str) -> DynamoStore:
    store = DynamoStore(target)
    a_long_run(store)
    if deed == "adopt":
        a_long_run(store, "copy", status="importing")
    if "record" in deed:
        store.put_record("s", "k", LONG, revision=0)
    if deed == "drop_blob":
        store.put_blobs([Blob(ADDRESS, LARGE)], at=AT)
    return store


def copied(items: list[dict[str, Any]]) -> DynamoStore:
    """A store in a table of its own that holds the same."""
    store = DynamoStore(table_for(f"crash-{uuid.uuid4().hex}"))
    store._table.write_all({"PutRequest": {"Item": item}} for item in items)
    return store


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_deed_that_is_cut_off_is_whole_or_not_begun(deed: str, after: bool) -> None:
    """At each of its requests: everybody reads the state before it or the state after it, examining finds no damage, the
    rest is swept by ``reclaim``, and then the same deed can be done, or was.

    Tried: without the void in the row, readers see half of a replaced stretch; without markers, parts stay for ever.
    """
    act: Callable[[DynamoStore], bool] = DEEDS[deed]
    whole = prepared(table_for(f"crash-{uuid.uuid4().hex}"), deed)
    old, items = picture(whole), all_items(whole)
    assert act(whole)
    new = picture(whole)
    assert old != new
    assert hidden(whole) == set()
    for requests in range(200):
        store = copied(items)
        fuse = Fuse(store._table, requests, after=after)
        with suppress(Killed):
            act(store)
        survivor = DynamoStore(store._table.target)
        seen = picture(survivor)
        assert seen in (old, new), f"torn by the {requests}th request"
        assert [found for found in survivor.examine() if found.verdict == "failure"] == []
        survivor.reclaim(thoroughly=True)
        assert hidden(survivor) == set(), f"left over by the {requests}th request"
        assert picture(survivor) == seen
        if seen == old:
            assert act(survivor)
            assert picture(survivor) == new
        survivor.close()
        store.close()
        if not fuse.blown:
            break
    else:
        pytest.fail("it never ends")
    whole.close()


def test_a_late_sweeper_leaves_what_came_after_it() -> None:
    """It was stopped between reading and deleting, and the stretch was replaced again meanwhile."""
    target = table_for(f"late-{uuid.uuid4().hex}")
    store, other = DynamoStore(target), DynamoStore(target)
    a_long_run(store)
    row = store._table.get({"pk": "run/r", "sk": "row"})
    assert row is not None
    assert replace(store)
    events = [an_event("r", seq, body=b"newer") for seq in (3, 7)] + [pruned("r", 8, HEAD)]
    again = {"fence": 1, "revision": revision_of(store, "r"), "after_seq": 0, "upto_seq": HEAD}
    assert other.replace_events("r", events=events, **again)  # type: ignore[arg-type]
    void = {"after": 0, "upto": HEAD, "kept": [5, HEAD], "edition": 1}
    sweeping.sweep_void(store._table, {**row, "void": void})
    assert store.read_events("r", limit=9) == events
    store.close()
    other.close()


def test_a_run_made_anew_while_its_forerunner_is_swept_is_untouched() -> None:
    """The sweeper knows a journal, not a name."""
    target = table_for(f"anew-{uuid.uuid4().hex}")
    store = DynamoStore(target)
    a_long_run(store)
    Fuse(store._table, 4, after=False)
    with pytest.raises(Killed):
        delete(store)
    other = DynamoStore(target)
    assert other.find_run("r") is None
    assert other.create_run(a_run("r"))
    grant = other.acquire("r", at=AT, lease_s=30.0)
    append(other, an_append("r", grant.lease.fence, 0, 3))
    other.reclaim()
    assert len(other.read_events("r", limit=9)) == 3
    assert hidden(other) == set()
    other.close()
    store.close()
