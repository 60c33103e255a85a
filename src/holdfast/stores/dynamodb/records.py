"""Records: one item each, written by one transaction, compared by revision.

A body in parts is let go of with a marker. That it is in parts is not asked beforehand: the condition says that it is not,
and only where that fails is the item read.
"""

from collections.abc import Iterator
from typing import Final

from holdfast.model.rows import Record
from holdfast.stores.dynamodb.actions import delete, put
from holdfast.stores.dynamodb.keys import record_key
from holdfast.stores.dynamodb.sweeping import sweep_let_go
from holdfast.stores.dynamodb.table import Item, Table
from holdfast.stores.dynamodb.values import PART_BYTES_MAX, bodied, discarded, read_body

_AT: Final = "#revision = :revision"
_AT_AND_LONG: Final = f"{_AT} AND #stage = :stage"
_AT_AND_SHORT: Final = f"{_AT} AND attribute_not_exists(#stage)"
_NEW: Final = "attribute_not_exists(#pk)"


def get_record(table: Table, space: str, key: str) -> Record | None:
    """See ``StorePort.get_record``."""
    while True:
        found = table.get(record_key(space, key))
        if found is None:
            return None
        body = read_body(table, found)
        if body is not None:
            return Record(space, key, found["revision"], body)


def put_record(table: Table, space: str, key: str, body: bytes, revision: int) -> bool:
    """See ``StorePort.put_record``."""
    attributes, parts = bodied(body, PART_BYTES_MAX)
    item = {**record_key(space, key), "revision": revision + 1, **attributes}
    if revision == 0:
        return table.transact([put(item, _NEW), *parts])
    if table.transact([put(item, _AT_AND_SHORT, revision=revision), *parts]):
        return True
    old = _long(table, space, key, revision)
    if old is None:
        return False
    same = {"revision": revision, "stage": old["stage"]}
    done = table.transact([put(item, _AT_AND_LONG, **same), *parts, *discarded(old)])
    sweep_let_go(table, [old] if done else ())
    return done


def delete_record(table: Table, space: str, key: str, revision: int) -> bool:
    """See ``StorePort.delete_record``."""
    if table.transact([delete(record_key(space, key), _AT_AND_SHORT, revision=revision)]):
        return True
    old = _long(table, space, key, revision)
    if old is None:
        return False
    same = {"revision": revision, "stage": old["stage"]}
    done = table.transact([delete(record_key(space, key), _AT_AND_LONG, **same), *discarded(old)])
    sweep_let_go(table, [old] if done else ())
    return done


def scan_records(table: Table, space: str, after: str, prefix: str, limit: int) -> Iterator[Record]:
    """See ``StorePort.scan_records``; as many as the caller takes."""
    low = max(f".{after}", f".{prefix}")
    for item in table.query(f"space/{space}", low=low, page=limit + 1):
        key = item["sk"][1:]
        if not key.startswith(prefix):
            return
        if key <= after:
            continue
        body = read_body(table, item)
        record = get_record(table, space, key) if body is None else Record(space, key, item["revision"], body)
        if record is not None:
            yield record


def _long(table: Table, space: str, key: str, revision: int) -> Item | None:
    """The item, if it is at that revision and its body lies in parts."""
    found = table.get(record_key(space, key))
    return found if found is not None and found["revision"] == revision and "stage" in found else None
