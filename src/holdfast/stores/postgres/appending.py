"""Appending to journals: one event in one round trip, and any batch in one, too.

Knows the guarded statement and what its answer means. The invariant: an item is in the journal whole or not at all,
whatever happens to the items around it; the statement that moves the head is the one that writes. That threads share
commits is not decided here but above the port, where it serves every store.
"""

from collections.abc import Sequence
from typing import Any

from holdfast import limits
from holdfast.model.rows import Append, Appended, AppendOutcome, Blob, Lease, Refusal, inbox_space
from holdfast.stores.bounds import append_too_large, check_items
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.database import Database, Stage
from holdfast.stores.postgres.escaping import escaped


class Appender:
    """The port's ``append`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """See ``StorePort.append``."""
        database = self._database
        if len(items) == 1 and not database.polls and _is_plain(items[0]):
            return [self._append_event(items[0])]
        check_items(items)
        if not items:
            database.check()
            return []
        synced = any(item.synced for item in items)

        def act(connection: Connection, stage: Stage) -> list[tuple[Any, ...] | None]:
            stage.committing = True  # all is sent at once, the commit too
            return _in_one_go(database, connection, items, synced=synced)

        # Guarded by the head that they move, events cannot be written twice; a bare status could be.
        rows = self._committed(act, synced=synced, repeatable=all(item.events for item in items))
        return [self._outcome(item, row) for item, row in zip(items, rows, strict=True)]

    def _append_event(self, item: Append) -> AppendOutcome:
        (event,) = item.events
        if len(event.body) > limits.APPEND_SIZE_BYTES_MAX:
            raise append_too_large(item.run, len(event.body))
        values = {
            "run": item.run, "fence": item.fence, "after_seq": item.after_seq, "head": event.seq, "status": None,
            "commit": "on" if item.synced else "off", "seq": event.seq, "at": event.at, "kind": event.kind,
            "name": escaped(event.name), "key": escaped(event.key), "event_fence": event.fence, "body": event.body, "crc": event.crc,
        }  # fmt: skip

        def act(connection: Connection, stage: Stage) -> tuple[Any, ...] | None:
            stage.committing = True  # the statement is its own transaction
            return connection.execute(sql.APPEND_EVENT, values, prepare=True, binary=True).fetchone()

        return self._outcome(item, self._committed(act, synced=item.synced, repeatable=True))

    def _committed(self, act: Any, *, synced: bool, repeatable: bool) -> Any:
        if not synced:
            self._database.dirty = True  # before it is: an interrupt may fall right behind the commit
        result = self._database.attempt(act, repeatable=repeatable)
        if synced:
            self._database.dirty = False
        return result

    def _outcome(self, item: Append, row: tuple[Any, ...] | None) -> AppendOutcome:
        if row is None:
            return Refusal("unknown")
        taken, head, *rest = row
        if taken is not None:
            return Appended(item.events[-1].seq if item.events else item.after_seq)
        found = set(rest[-1])
        missing = tuple(address for address in _referred(item.blobs) if address not in found)
        return _refusal(item, head, Lease(*rest[:6]), missing) or self._refusal_now(item)

    def _refusal_now(self, item: Append) -> Refusal:
        """Somebody changed the run while the statement waited for its row: what refused it is what stands now."""
        row = self._database.read(lambda c: c.execute(sql.HEAD_AND_LEASE, (item.run,)).fetchone())
        if row is None:
            return Refusal("unknown")
        # If the reason is gone since, a conflict is what it was.
        return _refusal(item, row[0], Lease(*row[1:]), ()) or Refusal(
            "conflict", item.after_seq, Lease(item.fence)
        )


def missing(connection: Connection, blobs: Sequence[Blob]) -> tuple[str, ...]:
    """The addresses that are neither kept nor brought along; those that are kept stay so while the transaction lasts."""
    referred = _referred(blobs)
    if not referred:
        return ()
    found = {row[0] for row in connection.execute(sql.LOCK_BLOBS, (referred,))}
    return tuple(address for address in referred if address not in found)


def keep_blobs(connection: Connection, blobs: Sequence[Blob], at: float) -> None:
    """Put each, or touch the one that is without data, inside an open transaction."""
    for address, data in sorted(_brought(blobs).items()):
        connection.execute(sql.PUT_BLOB, (address, at, data))
    if referred := _referred(blobs):
        connection.execute(sql.TOUCH_BLOBS, (at, referred))


def _in_one_go(
    database: Database, connection: Connection, items: Sequence[Append], *, synced: bool
) -> list[tuple[Any, ...] | None]:
    """A transaction of which nothing waits for an answer: each statement by itself knows whether it may write."""
    with connection.pipeline():
        database.begin(connection)
        if len(items) > 1:
            connection.execute(sql.LOCK_RUNS, (sorted({item.run for item in items}),), prepare=True)
        cursors = [_apply(connection, item, synced=synced) for item in items]
        connection.execute("COMMIT")
    return [cursor.fetchone() for cursor in cursors]


def _apply(connection: Connection, item: Append, *, synced: bool) -> Any:
    events = item.events
    values: dict[str, Any] = {
        "run": item.run, "fence": item.fence, "after_seq": item.after_seq,
        "head": events[-1].seq if events else item.after_seq, "status": item.status, "commit": "on" if synced else "off",
        "seqs": [e.seq for e in events], "ats": [e.at for e in events], "kinds": [e.kind for e in events],
        "names": [escaped(e.name) for e in events], "keys": [escaped(e.key) for e in events], "fences": [e.fence for e in events],
        "bodies": [e.body for e in events], "crcs": [e.crc for e in events],
    }  # fmt: skip
    if not item.blobs and not item.consumed:
        return connection.execute(sql.APPEND_EVENTS, values, binary=True)
    brought = _brought(item.blobs)
    values |= {
        "referred": _referred(item.blobs),
        "addresses": sorted(brought),
        "contents": [brought[address] for address in sorted(brought)],
        "at": events[0].at if events else 0.0,
        "inbox": inbox_space(item.run),
        "consumed": list(item.consumed),
    }
    return connection.execute(sql.APPEND_WITH_BLOBS, values, binary=True)


def _is_plain(item: Append) -> bool:
    """One event right behind the head, and nothing else."""
    return (
        len(item.events) == 1
        and item.events[0].seq == item.after_seq + 1
        and item.status is None
        and not item.blobs
        and not item.consumed
    )


def _brought(blobs: Sequence[Blob]) -> dict[str, bytes]:
    return {address: data for address, data in blobs if data is not None}


def _referred(blobs: Sequence[Blob]) -> list[str]:
    """The addresses that must be there already, each once, in order."""
    brought = _brought(blobs)
    return list(dict.fromkeys(address for address, data in blobs if data is None and address not in brought))


def _refusal(item: Append, head: int, lease: Lease, absent: tuple[str, ...]) -> Refusal | None:
    """What speaks against an item; a stale writer learns that first, before anything about blobs."""
    if lease.fence != item.fence:
        return Refusal("fenced", head, lease)
    if head != item.after_seq:
        return Refusal("conflict", head, lease)
    return Refusal("missing", head, lease, absent) if absent else None
