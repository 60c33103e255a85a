"""Records: one item each, written by one transaction, compared by revision.

A body in parts is deleted with a marker. Whether it is in parts is not read first: the condition assumes that
it is not, and the item is read only if that fails.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.errors import Corrupt
from holdfast.model.store_rows import Record
from holdfast.stores.dynamodb.table.actions import Action, delete, put
from holdfast.stores.dynamodb.table.keys import record_key
from holdfast.stores.dynamodb.table.split_bodies import (
    PART_BYTES_MAX,
    bodied,
    discarded,
    read_body,
)
from holdfast.stores.dynamodb.table.table import Item, Table
from holdfast.stores.dynamodb.verbs.sweep import sweep_let_go
from holdfast.stores.row_checksums import judged_record, record_crc

_AT: Final = "#revision = :revision"
_AT_AND_LONG: Final = f"{_AT} AND #stage = :stage"
_AT_AND_SHORT: Final = f"{_AT} AND attribute_not_exists(#stage)"
_NEW: Final = "attribute_not_exists(#pk)"


def get_record(table: Table, space: str, key: str) -> Record | None:
    """See ``StorePort.get_record``."""
    found = _find(table, space, key)
    if found is not None and found.damage:
        raise Corrupt(store=table.target.url, problem=found.damage)
    return found


def _find(table: Table, space: str, key: str) -> Record | None:
    """The record, checked."""
    while True:
        found = table.get(record_key(space, key))
        if found is None:
            return None
        body = read_body(table, found)
        if body is not None:
            return _judged(space, found, body)


def _judged(space: str, item: Item, body: bytes) -> Record:
    return judged_record(Record(space, item["sk"][1:], item["revision"], body), item.get("crc"))


def put_record(table: Table, space: str, key: str, body: bytes, revision: int) -> bool:
    """See ``StorePort.put_record``."""
    attributes, parts = bodied(body, PART_BYTES_MAX)
    crc = record_crc(space, key, revision + 1, body)
    item = {**record_key(space, key), "revision": revision + 1, "crc": crc, **attributes}
    if revision == 0:
        return table.transact([put(item, _NEW), *parts]) or _replaced(table, space, key, item, parts)
    if table.transact([put(item, _AT_AND_SHORT, revision=revision), *parts]):
        return True
    old = _long(table, space, key, revision)
    if old is None:
        return False
    same = {"revision": revision, "stage": old["stage"]}
    done = table.transact([put(item, _AT_AND_LONG, **same), *parts, *discarded(old)])
    sweep_let_go(table, [old] if done else ())
    return done


def _replaced(table: Table, space: str, key: str, item: Item, parts: Sequence[Action]) -> bool:
    """Whether there was a damaged record that this item has replaced."""
    found = _find(table, space, key)
    if found is None or not found.damage:
        return False
    old = table.get(record_key(space, key)) or {}
    same = {"revision": old.get("revision"), "crc": old.get("crc")}
    when = "#revision = :revision AND #crc = :crc"
    done = table.transact([put(item, when, **same), *parts, *discarded(old)])
    sweep_let_go(table, [old] if done and "stage" in old else ())
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
    """See ``StorePort.scan_records``; read lazily."""
    low = max(f".{after}", f".{prefix}")
    for item in table.query(f"space/{space}", low=low, page=limit + 1):
        key = item["sk"][1:]
        if not key.startswith(prefix):
            return
        if key <= after:
            continue
        body = read_body(table, item)
        record = _find(table, space, key) if body is None else _judged(space, item, body)
        if record is not None:
            yield record


def every_record(table: Table) -> Iterator[Record]:
    """All records of all spaces, checked, in any order."""
    for item in table.scan("space/"):
        space, body = item["pk"].removeprefix("space/"), read_body(table, item)
        record = _find(table, space, item["sk"][1:]) if body is None else _judged(space, item, body)
        if record is not None:
            yield record


def _long(table: Table, space: str, key: str, revision: int) -> Item | None:
    """The item, if it has that revision and its body is in parts."""
    found = table.get(record_key(space, key))
    return found if found is not None and found["revision"] == revision and "stage" in found else None
