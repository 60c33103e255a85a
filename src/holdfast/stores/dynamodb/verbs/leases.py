"""Leases: part of the run's row, so that the fence is checked where the head is.

Nothing can be proven about processes on other machines: their leases are taken over when they fall silent.
"""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.model.store_rows import Grant, Lease
from holdfast.stores.dynamodb.format_mark import FORMAT
from holdfast.stores.dynamodb.table.actions import Action, delete, put, update
from holdfast.stores.dynamodb.table.keys import held_key, new_id, row_key
from holdfast.stores.dynamodb.table.run_item import FENCE, find_item, known, lease_of, row_of
from holdfast.stores.dynamodb.table.table import Item, Table
from holdfast.stores.dynamodb.verbs.blobs import TRIES_MAX, contended
from holdfast.stores.server_owners import owner_here

HELD: Final = "#fence2 = :fence AND #owner > :nobody"
TAKE: Final = (
    "SET #fence2 = :new, #owner = :owner, #beat = :zero, #since = :at, #beat_at = :at, #lease_s = :lease_s, "
    "#format = :format, #taking = :taking REMOVE #fence"
)
AS_SEEN: Final = f"{FENCE} AND #owner = :held_by AND #journal = :journal"


def acquire(table: Table, run: str, *, at: float, lease_s: float, over: Lease | None, above: int) -> Grant:
    """See ``StorePort.acquire``."""
    token = new_id()
    seen = table.known.find(run)
    if seen is not None and over is None and not seen.get("owner") and "agent" not in seen:
        lease = Lease(_next(seen, above), owner_here(), 0, at, at, lease_s)
        taken = table.updated(_taking(run, seen, lease, token))
        if taken is not None:
            return _granted(table, run, taken)
    for _ in range(TRIES_MAX):
        row = find_item(table, run)
        if row is None:
            return Grant(False, Lease())
        held = lease_of(row)
        if row.get("taking") == token:  # its answer was lost, and it was refused by its own success
            return _granted(table, run, row)
        if held.owner and (over is None or (over.fence, over.beat) != (held.fence, held.beat)):
            return Grant(False, held)
        lease = Lease(_next(row, above), owner_here(), 0, at, at, lease_s)
        if table.transact([_taking(run, row, lease, token), *noted(row)]):
            return Grant(True, lease)
    raise contended(table, f"the lease of {run}")


def _taking(run: str, row: Item, lease: Lease, token: str) -> Action:
    """Take the lease of a row that is as it was seen."""
    values = {"fence": row["fence"], "held_by": row.get("owner", ""), "journal": row["journal"]}
    when = AS_SEEN
    if row.get("owner"):
        when, values = f"{when} AND #beat = :beat", {**values, "beat": row["beat"]}
    return update(row_key(run), TAKE, when, **values, **take_values(lease, token))


def _next(row: Item, above: int) -> int:
    return int(max(row["fence"], above)) + 1


def _granted(table: Table, run: str, item: Item) -> Grant:
    """The lease, with the row unless it is damaged or has its body elsewhere."""
    row = known(table, item)
    table.known.keep(run, row)
    lease = lease_of(row)
    if "stage" in row:
        return Grant(True, lease)
    whole = row_of(row, bytes(row["body"]))
    return Grant(True, lease, None if whole.damage else whole)


def renew(table: Table, fences: Mapping[str, int], at: float) -> frozenset[str]:
    """See ``StorePort.renew``.

    One request per run: a heartbeat in a larger transaction would conflict with appends.
    """
    change = "SET #beat = #beat + :one, #beat_at = :at"
    return frozenset(
        run
        for run, fence in fences.items()
        if not table.update(update(row_key(run), change, HELD, one=1, at=at, fence=fence, nobody=""))
    )


def release(table: Table, run: str, fence: int) -> bool:
    """See ``StorePort.release``."""
    row = table.known.find(run) or find_item(table, run)
    if row is None:
        return False
    change = "SET #owner = :nobody REMOVE #beat, #since, #beat_at, #lease_s"
    gone = [delete(held_key(row["agent"], run))] if "agent" in row else []
    return table.transact([update(row_key(run), change, HELD, fence=fence, nobody=""), *gone])


def take_values(lease: Lease, token: str) -> dict[str, Any]:
    """The values of ``TAKE``; the token says whose taking it was."""
    told = {"new": lease.fence, "owner": lease.owner, "zero": 0, "at": lease.since, "lease_s": lease.lease_s}
    return {**told, "format": FORMAT, "taking": token}


def noted(row: Item) -> list[Action]:
    """The note that a run of an agent is held, for workers that look for runs of dead holders."""
    return [put(held_key(row["agent"], row["pk"].removeprefix("run/")))] if "agent" in row else []
