"""A run's row as an item, and back.

Besides the fields of ``RunRow``, the row has the number of its forks and whether each has its note, the name
of its journal, the journal's edition (which grows whenever existing events are changed), and the void part of
the journal.
"""

from typing import Any, Final

from holdfast.model.store_rows import Lease, RunRow
from holdfast.stores.dynamodb.format_mark import FORMAT, check_format
from holdfast.stores.dynamodb.table.keys import row_key
from holdfast.stores.dynamodb.table.split_bodies import read_body
from holdfast.stores.dynamodb.table.table import Item, Table
from holdfast.stores.row_checksums import judged, run_crc, status_crc

ROW_BODY_BYTES_MAX: Final = 2_000
"""Every append rewrites the row, and pays for its size: a longer body is stored in parts."""

FENCE: Final = "(#fence2 = :fence OR #fence = :fence)"
"""A run of format 1 has its fence under the other name; one of this format has none there. So an older
Holdfast stops: it asks for that fence before it takes, changes or forks a run. Taking a run, or appending
to it, makes it one of this format."""
STANDS: Final = f"{FENCE} AND #revision = :revision AND attribute_not_exists(#gone)"


def find_item(table: Table, run: str) -> Item | None:
    """The row's item, unless it is only the fence of a deleted run."""
    found = table.get(row_key(run))
    if found is None or "gone" in found:
        table.known.forget(run)
        return None
    row = known(table, found)
    table.known.keep(run, row)
    return row


def known(table: Table, item: Item) -> Item:
    """A row's item with its fence, whatever format it is of. Raises NewerFormat."""
    check_format(item.get("format", 1), table.target)
    return item if "fence" in item else {**item, "fence": item["fence2"]}


def find_row(table: Table, run: str) -> RunRow | None:
    """The complete row."""
    while True:
        found = find_item(table, run)
        if found is None:
            return None
        body = read_body(table, found)
        if body is not None:
            return row_of(found, body)


def row_of(item: Item, body: bytes) -> RunRow:
    """The row, checked."""
    row = RunRow(
        run=item["pk"].removeprefix("run/"),
        birth=item["birth"],
        created_at=float(item["created_at"]),
        status=item["status"],
        body=body,
        origin=item.get("origin"),
        origin_seq=item["origin_seq"],
        head=item["head"],
        revision=item["revision"],
        lease=lease_of(item),
        agent=item.get("agent", ""),
        due_at=due_of(item),
    )
    return judged(row, item.get("crc"), item.get("status_crc"))


def due_of(item: Item) -> float | None:
    return float(item["due_at"]) if "due_at" in item else None


def lease_of(item: Item) -> Lease:
    if not item.get("owner"):
        return Lease(item["fence"])
    return Lease(
        fence=item["fence"],
        owner=item["owner"],
        beat=item["beat"],
        since=float(item["since"]),
        beat_at=float(item["beat_at"]),
        lease_s=float(item["lease_s"]),
    )


def fields_of(row: RunRow, journal: str) -> dict[str, Any]:
    """The first fields of a new run's item.

    Without its body, and without its fence, which an earlier run may have left.
    """
    return {
        "birth": row.birth,
        "created_at": row.created_at,
        "status": row.status,
        "origin": row.origin,
        "origin_seq": row.origin_seq,
        "head": row.origin_seq,
        "revision": 1,
        "owner": "",
        "forks": 0,
        "noted": True,
        "journal": journal,
        "edition": 0,
        "agent": row.agent or None,
        "due_at": row.due_at,
        "format": FORMAT,
        "crc": run_crc(row),
        "status_crc": status_crc(row.run, row.status),
    }
