"""The queue: partitions that list the due and the held runs of an agent; the rows decide.

A note is written and deleted in the transaction that changes the row. A run that was deleted or adopted
meanwhile may leave one behind: a reader that finds that the row disagrees deletes it, on that condition.
"""

import random
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final

from holdfast.model.store_rows import Lease, RunRow
from holdfast.stores.dynamodb.table.actions import Action, check, delete, put, update
from holdfast.stores.dynamodb.table.keys import due_key, due_run, held_key, new_id, ordered, row_key
from holdfast.stores.dynamodb.table.run_item import due_of, find_item, find_row, known, row_of
from holdfast.stores.dynamodb.table.split_bodies import read_body
from holdfast.stores.dynamodb.table.table import Item, Table
from holdfast.stores.dynamodb.verbs.blobs import TRIES_MAX, contended
from holdfast.stores.dynamodb.verbs.leases import AS_SEEN, HELD, TAKE, noted, take_values
from holdfast.stores.row_checksums import undamaged
from holdfast.stores.server_owners import owner_here

_PAGE_MIN: Final = 25
_FIRST, _LAST = "0", "\U0010ffff"


def claim(table: Table, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
    """See ``StorePort.claim``.

    Each lease is taken by a conditional write; after a lost race the next one is tried.
    """
    claimed: list[RunRow] = []
    lease = Lease(0, owner_here(), 0, at, at, lease_s)
    notes = merge(*(_due(table, agent, at, limit) for agent in set(agents)), key=lambda note: note["sk"])
    while len(claimed) < limit and (page := list(islice(notes, limit - len(claimed)))):
        rows = _items(table, [due_run(note["sk"]) for note in page])
        confirmed = [rows[due_run(note["sk"])] for note in page if _is_so(table, note, rows)]
        free = [row for row in confirmed if not row.get("owner") and not _left_alone(table, row)]
        random.shuffle(free)  # concurrent claimers see the same runs
        taken = (_take(table, row, lease._replace(fence=row["fence"] + 1)) for row in free)
        claimed += [row for row in taken if row is not None]
    return sorted(claimed, key=lambda row: (row.due_at, row.created_at, row.run))


def list_held(table: Table, agents: Sequence[str], *, after: str, limit: int) -> list[RunRow]:
    """See ``StorePort.list_held``."""
    names = merge(*(_held(table, agent, after, limit) for agent in set(agents)), key=lambda pair: pair[1])
    found: list[RunRow] = []
    while len(found) < limit and (page := list(islice(names, limit - len(found)))):
        rows = _items(table, [run for _, run in page])
        for agent, run in page:
            if run in rows and rows[run].get("owner") and rows[run].get("agent") == agent:
                row = _whole(table, rows[run])
                found += [row] if row is not None else []
            else:
                free = "attribute_not_exists(#owner) OR #owner = :nobody OR #agent <> :agent"
                table.transact(
                    [delete(held_key(agent, run)), check(row_key(run), free, nobody="", agent=agent)]
                )
    return found


def set_due(table: Table, run: str, *, fence: int, due_at: float | None) -> bool:
    """See ``StorePort.set_due``."""
    for _ in range(TRIES_MAX):
        row = find_item(table, run)
        if row is None or not row.get("owner") or row["fence"] != fence:
            return False
        if _move(table, row, due_at, HELD, fence=fence, nobody=""):
            return True
    raise contended(table, f"the queue at {run}")


def call_up(table: Table, run: str, *, at: float) -> bool:
    """See ``StorePort.call_up``."""
    for _ in range(TRIES_MAX):
        row = find_item(table, run)
        if row is None or "agent" not in row:
            return False
        due_at = due_of(row)
        if due_at is not None and due_at <= at:
            return True
        if _move(table, row, at, "attribute_not_exists(#gone)"):
            return True
    raise contended(table, f"the queue at {run}")


def due_note(agent: str, due_at: float, created_at: float, run: str) -> Action:
    """The note that a run is due at that time."""
    return put({**due_key(agent, due_at, created_at, run), "due_at": due_at, "created_at": created_at})


def _move(table: Table, row: Item, due_at: float | None, when: str, **values: Any) -> bool:
    """Write when it is due, and its note, if the row is unchanged since it was read."""
    run, was, created_at = _run(row), due_of(row), float(row["created_at"])
    told = {**values, "journal": row["journal"]}
    unchanged = "attribute_not_exists(#due_at)"
    if was is not None:
        unchanged, told = "#due_at = :was", {**told, "was": was}
    change = "REMOVE #due_at"
    if due_at is not None:
        change, told = "SET #due_at = :due_at", {**told, "due_at": due_at}
    actions = [update(row_key(run), change, f"{when} AND #journal = :journal AND {unchanged}", **told)]
    if "agent" in row and was != due_at:
        actions += [delete(due_key(row["agent"], was, created_at, run))] if was is not None else []
        actions += [due_note(row["agent"], due_at, created_at, run)] if due_at is not None else []
    return table.transact(actions)


def _due(table: Table, agent: str, at: float, limit: int) -> Iterator[Item]:
    return table.query(f"due/{agent}", low=_FIRST, high=f"{ordered(at)}/{_LAST}", page=max(limit, _PAGE_MIN))


def _held(table: Table, agent: str, after: str, limit: int) -> Iterator[tuple[str, str]]:
    for note in table.query(f"held/{agent}", low=after, page=limit + 1):
        if note["sk"] != after:
            yield agent, note["sk"]


def _is_so(table: Table, note: Item, rows: dict[str, Item]) -> bool:
    """Whether the row agrees with the note."""
    run = due_run(note["sk"])
    row = rows.get(run, {})
    told = {"agent": note["pk"].removeprefix("due/"), "due": note["due_at"], "made": note["created_at"]}
    if (row.get("agent"), row.get("due_at"), row.get("created_at")) == tuple(told.values()):
        return True
    other = "attribute_not_exists(#due_at) OR #due_at <> :due OR #created_at <> :made OR #agent <> :agent"
    table.transact([delete({"pk": note["pk"], "sk": note["sk"]}), check(row_key(run), other, **told)])
    return False


def _take(table: Table, row: Item, lease: Lease) -> RunRow | None:
    new = take_values(lease, new_id())
    seen = {"fence": row["fence"], "held_by": "", "journal": row["journal"], "due": row["due_at"]}
    when = f"{AS_SEEN} AND #due_at = :due"
    if not table.transact([update(row_key(_run(row)), TAKE, when, **seen, **new), *noted(row)]):
        return None
    found = _whole(table, row)
    return None if found is None else found._replace(lease=lease)


def _left_alone(table: Table, item: Item) -> bool:
    """Whether the row is damaged. Then no worker can run it, and it is made not due."""
    row = _whole(table, item)
    if row is None or not row.damage:
        return False
    undamaged([row], table.target.url)
    _move(table, item, None, "attribute_not_exists(#gone)")
    return True


def _items(table: Table, runs: Sequence[str]) -> dict[str, Item]:
    found = table.get_all(map(row_key, dict.fromkeys(runs)))
    return {_run(item): known(table, item) for item in found if "gone" not in item}


def _whole(table: Table, item: Item) -> RunRow | None:
    body = read_body(table, item)
    return find_row(table, _run(item)) if body is None else row_of(item, body)


def _run(item: Item) -> str:
    return str(item["pk"].removeprefix("run/"))
