"""Leases: part of the run's row, so that the fence is checked where the head is.

Nothing can be proven about processes on other machines: their leases are taken over when they fall silent.
"""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.model.store_rows import Grant, Lease
from holdfast.stores.dynamodb.format_mark import FORMAT
from holdfast.stores.dynamodb.table.actions import Action, delete, put, update
from holdfast.stores.dynamodb.table.keys import held_key, row_key
from holdfast.stores.dynamodb.table.run_item import FENCE, find_item, lease_of
from holdfast.stores.dynamodb.table.table import Item, Table
from holdfast.stores.dynamodb.verbs.blobs import TRIES_MAX, contended
from holdfast.stores.server_owners import owner_here

HELD: Final = "#fence2 = :fence AND #owner > :nobody"
TAKE: Final = (
    "SET #fence2 = :new, #owner = :owner, #beat = :zero, #since = :at, #beat_at = :at, #lease_s = :lease_s, "
    "#format = :format REMOVE #fence"
)
AS_SEEN: Final = f"{FENCE} AND #owner = :held_by AND #journal = :journal"


def acquire(
    table: Table, run: str, *, at: float, lease_s: float, over: Lease | None, above: int
) -> tuple[Grant, Item | None]:
    """See ``StorePort.acquire``; also returns the row as it was."""
    for _ in range(TRIES_MAX):
        row = find_item(table, run)
        if row is None:
            return Grant(False, Lease()), None
        held = lease_of(row)
        if held.owner and (over is None or (over.fence, over.beat) != (held.fence, held.beat)):
            return Grant(False, held), row
        lease = Lease(max(held.fence, above) + 1, owner_here(), 0, at, at, lease_s)
        values = {"fence": held.fence, "held_by": held.owner, "journal": row["journal"]}
        when = AS_SEEN
        if held.owner:
            when, values = f"{when} AND #beat = :beat", {**values, "beat": held.beat}
        if table.transact([update(row_key(run), TAKE, when, **values, **take_values(lease)), *noted(row)]):
            return Grant(True, lease), row
    raise contended(table, f"the lease of {run}")


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
    row = find_item(table, run)
    if row is None:
        return False
    change = "SET #owner = :nobody REMOVE #beat, #since, #beat_at, #lease_s"
    gone = [delete(held_key(row["agent"], run))] if "agent" in row else []
    return table.transact([update(row_key(run), change, HELD, fence=fence, nobody=""), *gone])


def take_values(lease: Lease) -> dict[str, Any]:
    """The values of ``TAKE``."""
    told = {"new": lease.fence, "owner": lease.owner, "zero": 0, "at": lease.since, "lease_s": lease.lease_s}
    return {**told, "format": FORMAT}


def noted(row: Item) -> list[Action]:
    """The note that a run of an agent is held, for workers that look for runs of dead holders."""
    return [put(held_key(row["agent"], row["pk"].removeprefix("run/")))] if "agent" in row else []
