"""Sweeps invisible data: parts and objects without an item, journals without a row, void events.

Markers in the partition ``trash`` list it; they were written with the deletion itself, so that a crash loses
none. Sweeping is idempotent, and two processes may sweep the same thing.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from holdfast.clock import SystemClock
from holdfast.errors import StoreError
from holdfast.stores.dynamodb.table.actions import delete, update
from holdfast.stores.dynamodb.table.keys import RUNS, TRASH, listed_run, row_key, trash_key
from holdfast.stores.dynamodb.table.table import ACTIONS_MAX, Item, Table
from holdfast.stores.dynamodb.verbs.events import is_void

STAGED_S: Final = 3_600.0
"""Parts staged this recently may belong to a blob that is being put."""
_OLDER: Final = "attribute_not_exists(#edition) OR #edition < :edition"


def sweep_all(table: Table) -> int:
    """Process every marker and every void; returns the bytes of bodies that were deleted."""
    swept = 0
    for marker in list(table.query(TRASH)):
        if SystemClock.wall() - marker.get("staged_at", 0.0) < STAGED_S:
            continue
        # From here on a slow writer of that stage can no longer write its head.
        if table.update(
            update(trash_key(marker["sk"]), "SET #swept = :yes", "attribute_exists(#pk)", yes=True)
        ):
            swept += (
                sweep_journal(table, marker["sk"])
                if marker["what"] == "log"
                else _sweep_stage(table, {**marker, "stage": marker["sk"]})
            )
    return swept


@contextmanager
def leaving_the_rest() -> Iterator[None]:
    """The change is durable; what cannot be swept now is swept by the next reclaim."""
    with suppress(StoreError):
        yield


def sweep_let_go(table: Table, items: Iterable[Mapping[str, Any]]) -> None:
    """Sweep what deleted items had outside of them, as far as that works now."""
    with leaving_the_rest():
        for item in items:
            if "stage" in item:
                _sweep_stage(table, item)


def _sweep_stage(table: Table, item: Mapping[str, Any]) -> int:
    """Delete the parts or the object, then the marker; returns the bytes of bodies."""
    if "object" in item:
        table.objects.delete(item["object"])
        size = int(item["size"])
    else:
        size = _delete_parts(table, item["stage"])
    table.delete_all([trash_key(item["stage"])])
    return size


def sweep_journal(table: Table, journal: str) -> int:
    """Delete the events with their parts, then the marker; returns the bytes of bodies."""
    events = list(table.query(f"log/{journal}", attributes=("pk", "sk", "size", "stage")))
    for event in events:
        if "stage" in event:
            _delete_parts(table, event["stage"])
    table.delete_all(events)
    table.delete_all([trash_key(journal)])
    return sum(event["size"] for event in events)


def sweep_void(table: Table, row: Item) -> None:
    """Delete the events that a replacement has left; then the row may forget them.

    Each only while it is older than the replacement: a slow sweeper must not delete newer events.
    """
    void = row["void"]
    low, high = f"{void['after'] + 1:010d}", f"{void['upto']:010d}"
    found = table.query(
        f"log/{row['journal']}", low=low, high=high, attributes=("pk", "sk", "stage", "edition")
    )
    doomed = [
        item for item in found if is_void(void, int(item["sk"])) and item.get("edition", 0) < void["edition"]
    ]
    for item in doomed:
        if "stage" in item:
            _delete_parts(table, item["stage"])
    for start in range(0, len(doomed), ACTIONS_MAX):
        group = doomed[start : start + ACTIONS_MAX]
        actions = [
            delete({"pk": item["pk"], "sk": item["sk"]}, _OLDER, edition=void["edition"]) for item in group
        ]
        if not table.transact(actions):
            return  # a later replacement swept this before it started
    run = row["pk"].removeprefix("run/")
    table.update(update(row_key(run), "REMOVE #void", "#void.#edition = :edition", edition=void["edition"]))


def _delete_parts(table: Table, stage: str) -> int:
    parts = list(table.query(f"part/{stage}", attributes=("pk", "sk", "size")))
    table.delete_all(parts)
    return sum(part["size"] for part in parts)


def sweep_voids(table: Table) -> None:
    """Finish every interrupted replacement."""
    for listed in table.query(RUNS, attributes=("sk",)):
        row = table.get(row_key(listed_run(listed["sk"])))
        if row is not None and "void" in row:
            sweep_void(table, row)
