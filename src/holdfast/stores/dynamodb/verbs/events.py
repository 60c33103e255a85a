"""A run's events as items, and reading them.

A query is not a snapshot: events may be replaced or swept meanwhile, and of a transaction it may see the
second event before the first. So a page ends at the head that the row had before, skips what the row lists as
void, and is read again if the row has another journal or edition afterwards.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Final

from holdfast.model.events import Event
from holdfast.model.store_rows import RunSize
from holdfast.stores.dynamodb.table.actions import Action, put
from holdfast.stores.dynamodb.table.keys import event_key
from holdfast.stores.dynamodb.table.run_item import find_item
from holdfast.stores.dynamodb.table.split_bodies import PART_BYTES_MAX, bodied, read_body
from holdfast.stores.dynamodb.table.table import Item, Table

_NO_BODY: Final = ("sk", "size")
_KIND: Final = ("sk", "kind")


def event_actions(journal: str, event: Event, edition: int = 0) -> list[Action]:
    """How an event is written; a replacement records its edition."""
    seq, at, kind, name, key, fence, body, crc, chain = event
    attributes, parts = bodied(body, PART_BYTES_MAX)
    told = {"at": at, "kind": kind, "name": name, "key": key, "fence": fence, "crc": crc}
    if chain:
        told["chain"] = chain
    return [put({**event_key(journal, seq), **told, "edition": edition or None, **attributes}), *parts]


def read_page(
    table: Table,
    run: str,
    after_seq: int,
    upto_seq: int | None,
    limit: int,
    kinds: Collection[str] = (),
    skip: int = 0,
) -> list[Event]:
    """See ``StorePort.read_events``."""
    known = table.known.find(run)
    row = known or find_item(table, run)
    while row is not None:
        first, last = after_seq, upto_seq
        if skip:  # without their bodies
            narrow = live_items(table, row, after_seq, upto_seq, attributes=_KIND, kinds=kinds)
            seqs = [int(item["sk"]) for item in islice(narrow, skip, skip + limit)]
            first, last = (seqs[0] - 1, seqs[-1]) if seqs else (row["head"], None)
        # Of some kinds, one may be far from the next: then a request looks at as many as the service lets it.
        page = 0 if kinds else limit
        items = islice(live_items(table, row, first, last, page=page, kinds=kinds), limit)
        events = [_event(table, item) for item in items]
        before, row = row, find_item(table, run)
        # A row that was read some time ago may have had another head, or another void.
        is_old = before is known and row is not None and not _is_as_known(row, before)
        if row is not None and not is_old and _journal(row) == _journal(before):
            whole = [event for event in events if event is not None]
            if len(whole) == len(events):
                return whole
    return []


def count_kinds(table: Table, run: str, after_seq: int, upto_seq: int) -> dict[str, int]:
    """See ``StorePort.count_kinds``."""
    row = find_item(table, run)
    while row is not None:
        items = live_items(table, row, after_seq, upto_seq, attributes=_KIND)
        counts = Counter(item["kind"] for item in items)
        before, row = row, find_item(table, run)
        if row is not None and _journal(row) == _journal(before):
            return dict(counts)
    return {}


def measured(table: Table, run: str) -> RunSize:
    """See ``StorePort.measure``."""
    row = find_item(table, run)
    while row is not None:
        sizes = [item["size"] for item in live_items(table, row, attributes=_NO_BODY)]
        before, row = row, find_item(table, run)
        if row is not None and _journal(row) == _journal(before):
            return RunSize(len(sizes), sum(sizes))
    return RunSize(0, 0)


def live_items(
    table: Table,
    row: Item,
    after_seq: int = 0,
    upto_seq: int | None = None,
    *,
    page: int = 0,
    attributes: tuple[str, ...] = (),
    kinds: Collection[str] = (),
) -> Iterator[Item]:
    """The items of a run's events according to its row, in order of seq."""
    last = row["head"] if upto_seq is None else min(upto_seq, row["head"])
    if after_seq >= last:
        return
    low, high = event_key("", max(after_seq, 0) + 1)["sk"], event_key("", last)["sk"]
    void = row.get("void")
    log = f"log/{row['journal']}"
    for item in table.query(log, low=low, high=high, page=page, attributes=attributes, kinds=kinds):
        if void is None or not is_void(void, int(item["sk"])):
            yield item


def is_void(void: Item, seq: int) -> bool:
    """Whether an event was replaced and not yet swept."""
    return void["after"] < seq <= void["upto"] and seq not in void["kept"]


def _is_as_known(row: Item, known: Item) -> bool:
    return all(row.get(name) == known.get(name) for name in ("head", "void"))


def _journal(row: Item) -> tuple[str, int]:
    return (row["journal"], row["edition"])


def _event(table: Table, item: Item) -> Event | None:
    body = read_body(table, item)
    if body is None:
        return None
    return Event(
        int(item["sk"]),
        float(item["at"]),
        item["kind"],
        item["name"],
        item["key"],
        item["fence"],
        body,
        item["crc"],
        item.get("chain", 0),
    )
