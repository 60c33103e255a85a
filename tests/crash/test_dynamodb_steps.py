"""What takes DynamoDB several requests, cut off between any two that write: whole or not at all, and nothing is left over."""

import uuid
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import Any

import pytest
from tests.support.aws.server import table_for, with_bucket
from tests.support.sampling import OFTEN

from holdfast import limits
from holdfast.model.store_rows import Append, Blob, inbox_space
from holdfast.stores.dynamodb.address import Target, bucket_and_key
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.dynamodb.table import split_bodies
from holdfast.stores.dynamodb.verbs import blobs, records, remove, sweep
from holdfast.stores.dynamodb.verbs import events as logs
from holdfast.testing.store_rules.builders import (
    AT,
    a_run,
    an_append,
    an_event,
    append,
    delete_run,
    held,
    revision_of,
)
from holdfast.testing.store_rules.removal import pruned

ADDRESS = "ab" * 32
LARGE = bytes(range(256)) * 120
LONG = bytes(range(250)) * 20
HEAD = 31


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long begins early, so that the steps are many and the bytes few. Nobody else stages anything meanwhile."""
    for module in (split_bodies, logs, records):
        monkeypatch.setattr(module, "PART_BYTES_MAX", 2_000)
    monkeypatch.setattr(blobs, "TRANSACTION_BYTES_MAX", 20_000)
    monkeypatch.setattr(remove, "ACTIONS_MAX", 30)
    monkeypatch.setattr(remove, "_LETTERS_MAX", 5)
    monkeypatch.setattr(sweep, "ACTIONS_MAX", 12)
    monkeypatch.setattr(sweep, "STAGED_S", -1.0)
    monkeypatch.setattr(limits, "OBJECT_SIZE_BYTES_MIN", len(LARGE))


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the process runs any more."""


class Fuse:
    """Lets so many writes of a handle happen and kills it then: before the next one, which is as good as after the last."""

    WRITES = frozenset(
        {"transact_write_items", "batch_write_item", "update_item", "put_object", "delete_object"}
    )

    def __init__(self, store: DynamoStore, left: int) -> None:
        self._left = left
        self.blown = False
        lines = [store._table.line]
        if store._table.target.blobs:
            lines.append(store._table.objects._line(bucket_of(store)))
        for line in lines:
            vars(line)["client"] = _Fused(line.client, self._burn)

    def _burn(self, verb: str) -> None:
        self.blown = self.blown or (verb in self.WRITES and self._left == 0)
        if self.blown:
            raise Killed
        self._left -= verb in self.WRITES


class _Fused:
    """A client of which each verb burns the fuse first."""

    def __init__(self, client: Any, burn: Callable[[str], None]) -> None:
        self._client, self._burn = client, burn

    def __getattr__(self, verb: str) -> Any:
        if verb != "close":
            self._burn(verb)
        return getattr(self._client, verb)


def bucket_of(store: DynamoStore) -> str:
    return bucket_and_key(store._table.target.blobs)[0]


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
    pages = store._table.line.client.get_paginator("scan").paginate(TableName=store._table.target.table)
    return [item for page in pages for item in page["Items"]]


def hidden(store: DynamoStore) -> set[str]:
    """What nothing visible needs: journals that no row names, parts and objects that no item names, markers."""
    rows = [store._table.get({"pk": f"run/{run}", "sk": "row"}) or {} for run in ("r", "copy")]
    needed = {f"log/{row['journal']}" for row in rows if "journal" in row}
    named: list[dict[str, Any]] = [*rows]
    for pk in ("space/s", "space/inbox/r", "space/inbox/copy", "blob/a", *needed):
        named += store._table.query(pk)
    needed |= {f"part/{item['stage']}" for item in named if "stage" in item}
    needed |= {item["object"] for item in named if "object" in item}
    there = {item["pk"]["S"] for item in all_items(store)}
    kept = {pk for pk in there if pk.startswith(("log/", "part/", "trash"))}
    return (kept | objects(store).keys()) - needed


def objects(store: DynamoStore) -> dict[str, bytes]:
    """The whole bucket."""
    if not store._table.target.blobs:
        return {}
    kept = store._table.objects
    return {name: kept.find(name) or b"" for name, _ in kept.names("")}


def a_long_run(store: DynamoStore, run: str = "r", status: str = "running") -> None:
    """A run with more events than go at once, one of them long, a long body, and letters."""
    fence = held(store, run, status=status, body=LONG)
    append(store, Append(run, fence, 0, tuple(an_event("r", seq) for seq in range(1, 31))))
    append(store, Append(run, fence, 30, (an_event("r", 31, body=LONG),)))
    store.put_record(inbox_space(run), "long", LONG, revision=0)
    store.put_record(inbox_space(run), "short", b"x", revision=0)


def delete(store: DynamoStore) -> bool:
    return delete_run(store, "r", fence=1, revision=1)


def replace(store: DynamoStore, content: bytes = b"content") -> bool:
    return store.replace_events(
        "r",
        fence=1,
        revision=1,
        after_seq=0,
        upto_seq=HEAD,
        events=[pruned("r", 1, 5), pruned("r", 6, HEAD)],
        blobs=[Blob(ADDRESS, content)],
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


def append_object(store: DynamoStore) -> bool:
    append(store, an_append("r", 1, HEAD, blobs=(Blob(ADDRESS, LARGE),)))
    return True


def replace_object(store: DynamoStore) -> bool:
    return replace(store, LARGE)


PLAIN = (delete, replace, adopt, put_large, rewrite_record, drop_record, swap, consume, drop_blob)
DEEDS: dict[str, Callable[[DynamoStore], bool]] = {
    **{deed.__name__: deed for deed in PLAIN},
    "put_object": put_large,
    "drop_object": drop_blob,
    "append_object": append_object,
    "replace_object": replace_object,
}
"""Those that are named for objects are done by a store that has a bucket."""


def a_place(deed: str) -> Target:
    table = table_for(f"crash-{uuid.uuid4().hex}")
    return with_bucket(table) if "object" in deed else table


def prepared(deed: str) -> DynamoStore:
    store = DynamoStore(a_place(deed))
    a_long_run(store)
    if deed == "adopt":
        a_long_run(store, "copy", status="importing")
    if "record" in deed:
        store.put_record("s", "k", LONG, revision=0)
    if deed in {"drop_blob", "drop_object"}:
        store.put_blobs([Blob(ADDRESS, LARGE)], at=AT)
    return store


def copied(source: DynamoStore, deed: str) -> DynamoStore:
    """A store in a place of its own that holds the same."""
    store = DynamoStore(a_place(deed))
    here, there = source._table.target.blobs, store._table.target.blobs
    items = all_items(source)
    for item in items:
        if "object" in item:
            item["object"] = {"S": item["object"]["S"].replace(here, there)}
    store._table.write_all({"PutRequest": {"Item": item}} for item in items)
    for name, content in objects(source).items():
        store._table.objects.put(name.replace(here, there), content)
    return store


@pytest.mark.parametrize("deed", DEEDS)
def test_a_deed_that_is_cut_off_is_whole_or_not_begun(deed: str) -> None:
    """Before every fourth of its writes, in ``make crash`` before each: everybody reads the state before it or the state after it, examining finds no damage, the
    rest is swept by ``reclaim``, and then the same deed can be done, or was. Of an append or a replacement that brings an
    object, the blob may be there already, which nothing refers to yet.

    Tried: without the void in the row, readers see half of a replaced stretch; without markers, parts stay for ever; with
    the head before its object, a killed put leaves a blob without content, and with the object deleted before its head so
    does a killed deletion.
    """
    act = DEEDS[deed]
    untouched, whole = prepared(deed), prepared(deed)
    old = picture(untouched)
    assert act(whole)
    new = picture(whole)
    assert old != new
    assert hidden(whole) == set()
    for writes in range(list(DEEDS).index(deed) % OFTEN, 200, OFTEN):
        store = copied(untouched, deed)
        fuse = Fuse(store, writes)
        with suppress(Killed):
            act(store)
        survivor = DynamoStore(store._table.target)
        seen = picture(survivor)
        halves = [{**old, "blobs": new["blobs"]}] if act in (append_object, replace_object) else []
        assert seen in (old, new, *halves), f"torn before write {writes}"
        assert [found for found in survivor.examine() if found.verdict == "failure"] == []
        survivor.reclaim(thoroughly=True)
        assert hidden(survivor) == set(), f"left over before write {writes}"
        assert picture(survivor) == seen
        if seen != new:
            assert act(survivor)
            assert picture(survivor) == new
        survivor.close()
        store.close()
        if not fuse.blown:
            break
    else:
        pytest.fail("it never ends")
    for one in (untouched, whole):
        one.close()


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
    sweep.sweep_void(store._table, {**row, "void": void})
    assert store.read_events("r", limit=9) == events
    store.close()
    other.close()


def test_a_run_made_anew_while_its_forerunner_is_swept_is_untouched() -> None:
    """The sweeper knows a journal, not a name."""
    target = table_for(f"anew-{uuid.uuid4().hex}")
    store = DynamoStore(target)
    a_long_run(store)
    Fuse(store, 1)
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


@pytest.mark.parametrize("deed", ["drop_blob", "drop_object"])
def test_a_late_deleter_leaves_what_was_put_again(deed: str) -> None:
    """It was stopped between letting go of the blob and deleting the content, and the same blob was put meanwhile. Its
    name ends in another stage: with objects named by their address alone, this fails."""
    store = prepared(deed)
    (head,) = store._table.query(f"blob/{ADDRESS[0]}")
    assert blobs._delete(store._table, [head], AT + 1)
    other = DynamoStore(store._table.target)
    assert other.get_blobs([ADDRESS]) == {}
    assert put_large(other)
    sweep.sweep_let_go(store._table, [head])
    other.reclaim()
    assert other.get_blobs([ADDRESS]) == {ADDRESS: LARGE}
    assert hidden(other) == set()
    other.close()
    store.close()


@pytest.mark.parametrize("deed", ["drop_blob", "drop_object"])
def test_a_deleter_that_looked_before_the_blob_was_put_again_lets_it_be(deed: str) -> None:
    """Its marker would name the old content, and the new one would be nobody's for ever."""
    store = prepared(deed)
    (seen,) = store._table.query(f"blob/{ADDRESS[0]}")
    assert drop_blob(store)
    assert put_large(store)
    assert not blobs._delete(store._table, [seen], AT + 1)
    assert store.get_blobs([ADDRESS]) == {ADDRESS: LARGE}
    assert drop_blob(store)
    assert hidden(store) == set()
    store.close()


@pytest.mark.parametrize("deed", ["put_large", "put_object"])
def test_a_putter_whose_content_was_swept_before_its_head_came_puts_it_again(deed: str) -> None:
    """The marker says that it was swept: a head that came nevertheless would have no content."""
    store = prepared(deed)
    sweeper = DynamoStore(store._table.target)
    transact, sweeps = store._table.transact, chain([sweeper.reclaim], iter(lambda: lambda: 0, None))

    def swept_before(actions: Any) -> bool:
        next(sweeps)()
        return transact(actions)

    vars(store._table)["transact"] = swept_before
    assert put_large(store)
    assert sweeper.get_blobs([ADDRESS]) == {ADDRESS: LARGE}
    assert hidden(sweeper) == set()
    sweeper.close()
    store.close()


def test_what_lies_in_a_bucket_is_found_by_whoever_opens_the_table() -> None:
    """The head names the bucket: a URL without one reads, touches and deletes what another has put there."""
    store = prepared("put_object")
    assert put_large(store)
    assert list(objects(store).values()) == [LARGE]
    other = DynamoStore(store._table.target._replace(blobs=""))
    assert other.get_blobs([ADDRESS]) == {ADDRESS: LARGE}
    assert append_object(other)
    assert drop_blob(other)
    assert objects(store) == {}
    other.close()
    store.close()
