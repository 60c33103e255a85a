"""Blobs: put or touched in a transaction, or alone; deleted only if they were not touched.

The service cannot store the later of two times. So a blob's actions are written for what is known of it:
first that it is new, or exists and was touched earlier; if that is wrong, then for what was read.

Content for a bucket, or too large for a transaction, is staged: first a marker, then the content, then the
head, which deletes the marker. A crash in between leaves what the marker names, which no reader sees.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import Throttled
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Blob, BlobInfo
from holdfast.stores.dynamodb.table.actions import Action, check, delete, put, update
from holdfast.stores.dynamodb.table.keys import SHARDS, blob_key, new_id, trash_key
from holdfast.stores.dynamodb.table.split_bodies import (
    Body,
    bodied,
    discarded,
    marker,
    read_body,
)
from holdfast.stores.dynamodb.table.table import ACTIONS_MAX, TRANSACTION_BYTES_MAX, Item, Table
from holdfast.stores.dynamodb.verbs.sweep import sweep_let_go

BLOB_INLINE_BYTES_MAX: Final = 8_000
"""Touching a blob pays for its item's size: larger content is stored in parts."""
TRIES_MAX: Final = 20
_HEAD: Final = ("pk", "sk", "touched", "size", "stage", "object")
_UNTOUCHED: Final = "#touched < :since AND attribute_not_exists(#stage)"
_UNTOUCHED_AND_SAME: Final = "#touched < :since AND #stage = :stage"
_NEW: Final = "attribute_not_exists(#pk)"
_UNSWEPT: Final = "attribute_exists(#pk) AND attribute_not_exists(#swept)"

Known = Mapping[str, float | None]
"""When blobs were last touched; None if there is none. Absent addresses have not been read."""


class Wanted(NamedTuple):
    """A blob to keep, with its data if the caller has it."""

    address: str
    data: bytes | None


def wanted(blobs: Iterable[Blob]) -> list[Wanted]:
    """Each address once: a transaction takes one action per item."""
    found: dict[str, bytes | None] = {}
    for address, data in blobs:
        if found.get(address) is None:
            found[address] = data
    return [Wanted(address, data) for address, data in found.items()]


def look(table: Table, blobs: Iterable[Wanted]) -> dict[str, float | None]:
    """What is known of them now."""
    addresses = [blob.address for blob in blobs]
    found = {item["sk"]: float(item["touched"]) for item in _heads(table, addresses)}
    return {address: found.get(address) for address in addresses}


def missing(blobs: Iterable[Wanted], known: Known) -> tuple[str, ...]:
    """The addresses that are neither stored nor in the append."""
    return tuple(blob.address for blob in blobs if blob.data is None and known[blob.address] is None)


def blob_actions(blob: Wanted, at: float, known: Known) -> list[Action]:
    """Put or touch one blob, for what is known of it."""
    key, touched = blob_key(blob.address), known.get(blob.address)
    if touched is not None and touched >= at:
        return [check(key, "#touched >= :at", at=at)]
    if touched is None and blob.data is not None:
        attributes, parts = bodied(blob.data, BLOB_INLINE_BYTES_MAX)
        return [put({**key, "touched": at, **attributes}, _NEW), *parts]
    return [update(key, "SET #touched = :at", "#touched <= :at", at=at)]


def into_bucket(table: Table, blobs: Iterable[Wanted], known: Known) -> list[Wanted]:
    """The blobs whose content must be in the bucket before a transaction can name them."""
    if not table.target.blobs:
        return []
    return [
        blob
        for blob in blobs
        if blob.data is not None
        and len(blob.data) >= limits.OBJECT_SIZE_BYTES_MIN
        and known.get(blob.address) is None
    ]


def keep_objects(table: Table, blobs: Iterable[Wanted], at: float, known: Known) -> Known:
    """Put those into the bucket that belong there; returns what is known then."""
    brought = into_bucket(table, blobs, known)
    keep_blobs(table, brought, at)
    return {**known, **{blob.address: at for blob in brought}}


def keep_blobs(table: Table, blobs: Iterable[Wanted], at: float) -> None:
    """Put or touch each, in as many transactions as needed."""
    group: list[Wanted] = []
    actions = size = 0
    for blob in blobs:
        if into_bucket(table, [blob], {}):
            _keep_staged(table, blob, at)
            continue
        own = blob_actions(blob, at, {})
        own_size = sum(action.size for action in own)
        if own_size > TRANSACTION_BYTES_MAX:
            _keep_staged(table, blob, at)
            continue
        if group and (actions + len(own) > ACTIONS_MAX or size + own_size > TRANSACTION_BYTES_MAX):
            _keep_group(table, group, at)
            group, actions, size = [], 0, 0
        group.append(blob)
        actions, size = actions + len(own), size + own_size
    if group:
        _keep_group(table, group, at)


def _keep_group(table: Table, group: Sequence[Wanted], at: float) -> None:
    known: Known = {}
    for _ in range(TRIES_MAX):
        if table.transact([action for blob in group for action in blob_actions(blob, at, known)]):
            return
        known = look(table, group)
    raise contended(table, "blobs")


def _keep_staged(table: Table, blob: Wanted, at: float) -> None:
    """Content that is too large for a transaction.

    It is written first, under a marker that the head deletes.
    """
    assert blob.data is not None, f"blob {blob.address} is staged without content"
    for _ in range(TRIES_MAX):
        known = look(table, [blob])
        if known[blob.address] is not None:
            if table.transact(blob_actions(blob, at, known)):
                return
            continue
        attributes, parts = _outside(table, blob.address, blob.data)
        # The marker first: a crash after it leaves something to sweep, and never a part without a name.
        table.write_all([{"PutRequest": put(marker(attributes, staged_at=SystemClock.wall())).request}])
        if "object" in attributes:
            table.objects.put(attributes["object"], blob.data)
        table.write_all({"PutRequest": part.request} for part in parts)
        head = put({**blob_key(blob.address), "touched": at, **attributes}, _NEW)
        # In one transaction: if a sweeper has claimed the marker, the head must not appear.
        if table.transact([head, delete(trash_key(attributes["stage"]), _UNSWEPT)]):
            return
        sweep_let_go(table, [attributes])
    raise contended(table, f"blob {blob.address}")


def _outside(table: Table, address: str, data: bytes) -> Body:
    """How to write content that is not in its head."""
    if not into_bucket(table, [Wanted(address, data)], {}):
        return bodied(data, BLOB_INLINE_BYTES_MAX)
    stage = new_id()
    return Body({"stage": stage, "object": table.objects.name(address, stage), "size": len(data)}, [])


def get_blobs(table: Table, addresses: Iterable[str]) -> dict[str, bytes]:
    """See ``StorePort.get_blobs``. A head whose content was removed from outside counts as missing."""
    found: dict[str, bytes] = {}
    for item in table.get_all(map(blob_key, dict.fromkeys(addresses))):
        head: Item | None = item
        while head is not None:
            body = read_body(table, head)
            if body is not None:
                found[head["sk"]] = body
                break
            # The blob may have been put again since its head was read. The same stage: its content is gone.
            gone, head = head, table.get(blob_key(head["sk"]))
            if head is not None and head["stage"] == gone["stage"]:
                break
    return found


def delete_blobs(table: Table, addresses: Iterable[str], untouched_since: float) -> int:
    """See ``StorePort.delete_blobs``."""
    doomed = [item for item in _heads(table, addresses) if item["touched"] < untouched_since]
    deleted: list[Item] = []
    # Up to two actions per blob: its head, and a marker for its content.
    for start in range(0, len(doomed), ACTIONS_MAX // 2):
        group = doomed[start : start + ACTIONS_MAX // 2]
        if _delete(table, group, untouched_since):
            deleted += group
        else:  # one of them was touched or deleted meanwhile: try each alone
            deleted += [item for item in group if _delete(table, [item], untouched_since)]
    sweep_let_go(table, deleted)
    return len(deleted)


def _delete(table: Table, group: Sequence[Item], since: float) -> bool:
    """Deletes them only unchanged.

    The content of a blob that was deleted and put again would be left behind.
    """
    actions: list[Action] = []
    for item in group:
        same = {"stage": item["stage"]} if "stage" in item else {}
        when = _UNTOUCHED_AND_SAME if same else _UNTOUCHED
        actions += [delete(blob_key(item["sk"]), when, since=since, **same), *discarded(item)]
    return table.transact(actions)


def scan_blobs(table: Table, after: str, limit: int) -> Iterator[BlobInfo]:
    """See ``StorePort.scan_blobs``; read lazily."""
    for shard in SHARDS:
        if shard < after[:1]:
            continue
        low = after if shard == after[:1] else ""
        for item in table.query(
            f"blob/{shard}", low=low, page=limit + 1, attributes=("sk", "size", "touched")
        ):
            if item["sk"] > after:
                yield BlobInfo(item["sk"], item["size"], float(item["touched"]))


def contended(table: Table, what: str) -> Throttled:
    """The error if too many writers wanted the same item for too long."""
    return Throttled(store=table.target.url, problem=f"others kept changing {what}")


def _heads(table: Table, addresses: Iterable[str]) -> list[Item]:
    return table.get_all(map(blob_key, dict.fromkeys(addresses)), _HEAD)
