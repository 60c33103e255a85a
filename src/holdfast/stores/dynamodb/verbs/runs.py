"""Creates and changes runs: the row, its place in the listing, and its fork's origin."""

from holdfast.model.store_rows import RunRow
from holdfast.stores.dynamodb.table.actions import put, update
from holdfast.stores.dynamodb.table.keys import fork_key, listing_key, name_key, new_id, row_key
from holdfast.stores.dynamodb.table.run_item import (
    ROW_BODY_BYTES_MAX,
    fields_of,
    find_item,
    row_of,
)
from holdfast.stores.dynamodb.table.split_bodies import bodied, discarded, read_body
from holdfast.stores.dynamodb.table.table import Table
from holdfast.stores.dynamodb.verbs.queue import due_note
from holdfast.stores.dynamodb.verbs.sweep import sweep_let_go
from holdfast.stores.row_checksums import run_crc, sound, status_crc

_FREE = "attribute_not_exists(#pk) OR attribute_exists(#gone)"


def create_run(table: Table, row: RunRow, origin_revision: int) -> bool:
    """See ``StorePort.create_run``. The fence that a deleted run of that name has left stays."""
    attributes, parts = bodied(row.body, ROW_BODY_BYTES_MAX)
    fields = {**fields_of(row, new_id()), **attributes}
    told = {name: value for name, value in fields.items() if value is not None}
    sets = ", ".join(f"#{name} = :{name}" for name in told)
    change = f"SET #fence2 = if_not_exists(#fence, :zero), {sets} REMOVE #gone, #fence"
    actions = [
        update(row_key(row.run), change, _FREE, zero=0, **told),
        put(listing_key(row.run, row.created_at)),
        put({**name_key(row.run), "created_at": row.created_at}),
        *parts,
    ]
    if row.agent and row.due_at is not None:
        actions.append(due_note(row.agent, row.due_at, row.created_at, row.run))
    if row.origin is not None:
        if row.origin == row.run:
            return False
        grows = "SET #revision = #revision + :one, #forks = #forks + :one"
        actions += [
            update(row_key(row.origin), grows, "#revision = :revision", one=1, revision=origin_revision),
            put(fork_key(row.origin, row.run)),
        ]
    if not table.transact(actions):
        return False
    table.known.keep(row.run, {**told, "fence": 0})  # unless a deleted run has left another one
    return True


def swap_run(table: Table, run: str, revision: int, status: str, body: bytes) -> bool:
    """See ``StorePort.swap_run``."""
    found = find_item(table, run)
    if found is None or found["revision"] != revision:
        return False
    was = read_body(table, found)
    if was is None:  # it was changed meanwhile
        return False
    row = sound(row_of(found, was), table.target.url)._replace(status=status, body=body)
    attributes, parts = bodied(body, ROW_BODY_BYTES_MAX)
    # An older Holdfast may hold a run of format 1, and changes its status without a checksum.
    sums = {"crc": run_crc(row), "status_crc": status_crc(run, status)} if "format" in found else {}
    told = {"status": status, **sums, **attributes}
    sets = ", ".join(f"#{name} = :{name}" for name in told)
    stale = [name for name in ("body", "stage", "parts") if name in found and name not in told]
    removes = f" REMOVE {', '.join(f'#{name}' for name in stale)}" if stale else ""
    change = f"SET #revision = #revision + :one, {sets}{removes}"
    when = "#revision = :revision AND #journal = :journal"
    values = {"one": 1, "revision": revision, "journal": found["journal"], **told}
    done = table.transact([update(row_key(run), change, when, **values), *parts, *discarded(found)])
    sweep_let_go(table, [found] if done else ())
    return done
