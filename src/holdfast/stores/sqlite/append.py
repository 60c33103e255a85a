"""Appends: the hot path and the general path.

It knows the guarded statement and the order inside an item. The invariant: an item is in the journal
completely or not at all, whatever happens to the items around it; all checks come before its writes. Group
commit of threads is not done here but above the port, where it serves every store.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import length_hint
from typing import Any

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
from holdfast.stores.bounds import check_item
from holdfast.stores.row_checksums import status_crc
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.statements import (
    APPEND_EVENT,
    APPEND_EVENTS,
    APPEND_WITH_BLOB,
    FORGET_RECORD,
    HAS_BLOB,
    HEAD_AND_LEASE,
    NUMBER_OF_RUN,
    PUT_BLOB,
    SET_STATUS,
    TOUCH_BLOB,
)

_new = tuple.__new__


class Appender:
    """The port's ``append`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers: dict[str, int] = {}
        """The numbers of the runs' rows, as they were when they were looked up."""

    def append_alone(self, item: Append) -> list[AppendOutcome] | None:  # noqa: C901, PLR0912, PLR0915 - calls cost more
        """A few events of one run, perhaps with a blob, without the layers of the general path.

        None: nothing was written.
        """
        run, fence, after_seq, events, blobs, consumed, status, synced, _ = item
        if consumed or status is not None or not 0 < (count := len(events)) <= len(APPEND_EVENTS):
            return None
        number = self._numbers.get(run)
        values: list[object] = [run, number]
        size, seq = 0, after_seq
        for event in events:
            seq += 1
            if event[0] != seq or event[5] != fence:
                return None
            size += len(event[6])
            values += event
        texts: tuple[str, ...] = APPEND_EVENTS
        if blobs:
            address, data = blobs[0]
            if len(blobs) > 1 or data is None or len(data) > limits.BLOB_SIZE_BYTES_MAX:
                return None
            texts = APPEND_WITH_BLOB
            values += (address, events[0][1], data)
        if size > limits.APPEND_SIZE_BYTES_MAX:
            return None  # the general path refuses it, unless sealing has made it that large
        database = self._database
        # "with", never acquire(): no signal handler can raise between a with's acquire and its block.
        with database.writing:
            try:
                if database.trouble or not database.locks.begins_turn():
                    database.begin_turn()
                connection = database.synced if synced else database.flushed
                if not synced:
                    database.dirty = True  # before the commit: an interrupt may come right after it
                try:
                    if number is None:
                        values[1] = number = connection.execute(NUMBER_OF_RUN, (run,)).get
                        self._numbers[run] = number
                    connection.execute(texts[count - 1], values)
                except apsw.ConstraintError as error:
                    # no such fence or head, or the number is that of an erased run
                    self._numbers.pop(run, None)
                    database.undo(connection, error)
                    return None
                except BaseException as error:
                    database.undo(connection, error)
                    if isinstance(error, apsw.Error):
                        raise database.translate(error, connection) from error
                    raise
                if not database.guard.has_held():
                    database.confirm(connection)
                if synced:
                    database.dirty = False
                    database.heads.note(run, fence, seq, events[-1][8])
                if database.waiters or database.wal_pages >= database.fold_at:
                    database.note_commit(synced=synced)
            finally:
                try:
                    database.locks.end_turn()
                    database.guard.allow_recovery()
                except OSError as error:
                    database.locks.end_turn_late(error)
        return [_new(Appended, (seq,))]

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """See ``StorePort.append``: the general path."""
        numbers = self._numbers
        bound = [_bind(item, numbers.get(item[0])) for item in items]
        synced = any(item[7] for item in items)
        outcomes: list[AppendOutcome] = []
        database = self._database

        def note() -> None:
            heads = database.heads
            for item, outcome in zip(items, outcomes, strict=True):
                if item[3] and type(outcome) is Appended:
                    heads.note(item[0], item[1], outcome[0], item[3][-1][8])

        # Noted within the turn: behind it another process could have deleted the run.
        with (
            database.writing,
            database.transaction(synced=synced, then=note if synced else None) as connection,
        ):
            for count, some in groupby(zip(items, bound, strict=True), _count_bound):
                if count:
                    outcomes += self._append_alike(connection, count, list(some))
                else:
                    outcomes += [self._append_one(connection, item, values) for item, values in some]
        return outcomes

    def _append_one(
        self, connection: apsw.Connection, item: Append, values: list[Any] | None
    ) -> AppendOutcome:
        """An item with more than events, inside an open transaction; few events by one statement.

        What that refuses is judged as all others are.
        """
        if values is not None and not missing(connection, item.blobs):
            self._bind_number(connection, values)
            try:
                connection.execute(APPEND_EVENTS[len(item.events) - 1], values)
            except apsw.ConstraintError:
                self._numbers.pop(item.run, None)
            else:
                return _apply_rest(connection, item, values[-9])
        return _apply(connection, item)

    def _bind_number(self, connection: apsw.Connection, values: list[Any]) -> None:
        if values[1] is None:
            number = values[1] = connection.execute(NUMBER_OF_RUN, (values[0],)).get
            if number is not None:
                self._numbers[values[0]] = number

    def _append_alike(
        self, connection: apsw.Connection, count: int, some: Sequence[tuple[Append, Any]]
    ) -> list[AppendOutcome]:
        """Items of so many plain events each, inside an open transaction, by one call of the database.

        The statement is the one that appends an item alone: it has the fence and the head in it, so nothing
        is looked up before it or remembered from earlier. An item that it refuses is judged by itself.
        """
        numbers = self._numbers
        for _, values in some:
            self._bind_number(connection, values)
        outcomes: list[AppendOutcome] = [
            _new(Appended, (values[-9 * count] + count - 1,)) for _, values in some
        ]
        rows = iter([values for _, values in some])
        while length_hint(rows):
            try:
                connection.executemany(APPEND_EVENTS[count - 1], rows)
            except apsw.ConstraintError:  # it undoes its own statement, not those before it
                refused = (
                    len(some) - length_hint(rows) - 1
                )  # a row is taken when the one before it is written
                item = some[refused][0]
                numbers.pop(item.run, None)  # it may be that of an erased run
                outcomes[refused] = _apply(connection, item)
        return outcomes


def _bind(item: Append, number: int | None) -> list[Any] | None:
    """What the statement for a few events gets for those of this item; None for other items. TooLarge.

    ``number`` is that of the run's row, if it is known.
    """
    run, fence, seq, events, _, _, _, _, _ = item
    if not (is_plain := _is_plain(item)):
        check_item(item)
    if 0 < len(events) <= len(APPEND_EVENTS):
        values: list[Any] = [run, number]
        size = 0
        for event in events:
            seq += 1
            if event[0] != seq or event[5] != fence:
                break
            size += len(event[6])
            values += event
        else:
            if size <= limits.APPEND_SIZE_BYTES_MAX:
                return values
    if is_plain:
        check_item(item)
    return None


def _is_plain(item: Append) -> bool:
    """Whether it has events only."""
    return not item[4] and not item[5] and item[6] is None


def _count_bound(bound: tuple[Append, list[Any] | None]) -> int:
    """How many events one statement writes for the item; 0 if it is not one of a few plain events."""
    return 0 if bound[1] is None or not _is_plain(bound[0]) else len(bound[0][3])


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
    return _apply_rest(connection, item, head)


def _apply_rest(connection: apsw.Connection, item: Append, head: int) -> Appended:
    """What an item has beside its events, once these are written; ``head`` is the seq of the last."""
    if item.blobs:
        keep_blobs(connection, item.blobs, item.events[0].at)
    for letter in item.consumed:
        connection.execute(FORGET_RECORD, (inbox_space(item.run), letter))
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
