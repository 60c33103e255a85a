"""Appends: the hot path and the general path.

It knows the guarded statement and the order inside an item. The invariant: an item is in the journal
completely or not at all, whatever happens to the items around it; all checks come before its writes. Group
commit of threads is not done here but above the port, where it serves every store.
"""

from collections.abc import Sequence

import apsw

from holdfast import limits
from holdfast.model.store_rows import (
    Append,
    Appended,
    AppendOutcome,
    Blob,
    Lease,
    Refusal,
    inbox_space,
)
from holdfast.stores.bounds import append_too_large, check_items
from holdfast.stores.row_checksums import status_crc
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.locks.reread import reread
from holdfast.stores.sqlite.statements import (
    APPEND_EVENT,
    CONSUME_LETTER,
    HAS_BLOB,
    HEAD_AND_LEASE,
    PUT_BLOB,
    SET_STATUS,
    TOUCH_BLOB,
)


class Appender:
    """The port's ``append`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """See ``StorePort.append``.

        One event of one run is one statement, without the layers of the general path.
        """
        if len(items) != 1:
            return self._commit(items)
        run, fence, after_seq, events, blobs, consumed, status, synced, _ = items[0]
        if len(events) != 1 or status is not None or blobs or consumed or events[0].seq != after_seq + 1:
            return self._commit(items)
        seq, at, kind, name, key, event_fence, body, crc, chain = events[0]
        if len(body) > limits.APPEND_SIZE_BYTES_MAX:
            raise append_too_large(run, len(body))
        database = self._database
        # "with", never acquire(): no signal handler can raise between a with's acquire and its block.
        with database.writing:
            try:
                database.begin_turn()
                connection = database.synced if synced else database.flushed
                if not synced:
                    database.dirty = True  # before the commit: an interrupt may come right after it
                try:
                    connection.execute(
                        APPEND_EVENT,
                        (seq, at, kind, name, key, event_fence, body, crc, chain, run, fence, after_seq),
                    )
                    written = connection.changes()
                except apsw.Error as error:
                    raise database.translate(error, connection) from error
                database.confirm(connection)
                if written:
                    if synced:
                        database.heads.note(run, fence, seq, chain)
                    database.note_commit(synced=synced)
            finally:
                try:
                    database.locks.end_turn()
                    database.guard.allow_recovery()
                except OSError as error:
                    database.locks.end_turn_late(error)
        if not written:
            return [_refusal_now(database, items[0])]
        return [Appended(seq)]

    def _commit(self, items: Sequence[Append]) -> list[AppendOutcome]:
        check_items(items)
        synced = any(item.synced for item in items)
        outcomes: list[AppendOutcome] = []

        def note() -> None:
            for item, outcome in zip(items, outcomes, strict=True):
                if item.events and isinstance(outcome, Appended):
                    self._database.heads.note(item.run, item.fence, outcome.head, item.events[-1].chain)

        # Noted within the turn: behind it another process could have deleted the run.
        with self._database.write(synced=synced, then=note if synced else None) as connection:
            outcomes += [_apply(connection, item) for item in items]
        return outcomes


def _apply(connection: apsw.Connection, item: Append) -> AppendOutcome:
    """Write one item inside an open transaction, or write nothing of it."""
    absent = missing(connection, item.blobs) if item.blobs else ()
    # APPEND_EVENT checks fence and head by itself; an item without events needs the check here.
    if absent or not item.events:
        refusal = _refusal(connection, item, absent)
        if refusal is not None:
            return refusal
    head = item.after_seq
    for event in item.events:
        connection.execute(APPEND_EVENT, (*event, item.run, item.fence, head))
        if not connection.changes():
            refusal = _refusal(connection, item, ())
            assert refusal is not None, f"the head of {item.run} moved inside a transaction"
            assert event is item.events[0], f"event {event.seq} of {item.run} was refused after its first"
            return refusal
        head = event.seq
    if item.blobs:
        keep_blobs(connection, item.blobs, item.events[0].at)
    for letter in item.consumed:
        connection.execute(CONSUME_LETTER, (inbox_space(item.run), letter))
    if item.status is not None:
        connection.execute(SET_STATUS, (item.status, status_crc(item.run, item.status), item.run))
    return Appended(head)


def keep_blobs(connection: apsw.Connection, blobs: Sequence[Blob], at: float) -> None:
    """Put each, or touch the one without data, inside an open transaction."""
    for address, data in blobs:
        if data is None:
            connection.execute(TOUCH_BLOB, (at, address))
        else:
            connection.execute(PUT_BLOB, (address, at, data))


def missing(connection: apsw.Connection, blobs: Sequence[Blob]) -> tuple[str, ...]:
    """The addresses that are neither stored nor in the append."""
    brought = {address for address, data in blobs if data is not None}
    return tuple(
        address
        for address, data in blobs
        if data is None and address not in brought and connection.execute(HAS_BLOB, (address,)).get is None
    )


def _refusal(connection: apsw.Connection, item: Append, missing: tuple[str, ...]) -> Refusal | None:
    """Why an item is refused; a stale fence is reported first, before missing blobs."""
    found = connection.execute(HEAD_AND_LEASE, (item.run,)).fetchone()
    if found is None:
        return Refusal("unknown")
    head, lease = found[0], Lease(*found[1:])
    if lease.fence != item.fence:
        return Refusal("fenced", head, lease)
    if head != item.after_seq:
        return Refusal("conflict", head, lease)
    return Refusal("missing", head, lease, missing) if missing else None


@reread
def _refusal_now(database: Database, item: Append) -> Refusal:
    """Why the guarded statement wrote nothing; queried afterwards, outside its transaction."""
    with database.read() as connection:
        # If the reason is gone by now (another process moved the head in between), report a conflict.
        return _refusal(connection, item, ()) or Refusal("conflict", item.after_seq, Lease(item.fence))
