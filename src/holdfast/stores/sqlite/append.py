"""Appends: the hot path and the general path.

It knows the guarded statement and the order inside an item. The invariant: an item is in the journal
completely or not at all, whatever happens to the items around it; all checks come before its writes. Group
commit of threads is not done here but above the port, where it serves every store.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

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
    CONSUME_LETTER,
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

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """See ``StorePort.append``."""
        if len(items) == 1 and (head := self._append_by_one_statement(items[0])):
            return [_new(Appended, (head,))]
        return self._commit(items)

    def _append_by_one_statement(self, item: Append) -> int:  # noqa: C901, PLR0912, PLR0915 - calls cost more
        """A few events of one run, perhaps with a blob, without the layers of the general path.

        0: nothing was written.
        """
        run, fence, after_seq, events, blobs, consumed, status, synced, _ = item
        count = len(events)
        if not 0 < count <= len(APPEND_EVENTS) or consumed or status is not None:
            return 0
        texts = APPEND_EVENTS
        content: tuple[object, ...] = ()
        if blobs:
            address, data = blobs[0]
            if len(blobs) > 1 or data is None or len(data) > limits.BLOB_SIZE_BYTES_MAX:
                return 0
            texts, content = APPEND_WITH_BLOB, (address, events[0].at, data)
        size = seq = chain = 0
        columns: list[object] = []
        for seq, at, kind, name, key, event_fence, body, crc, chain in events:
            after_seq += 1
            if event_fence != fence or seq != after_seq:
                return 0
            size += len(body)
            columns += (seq, at, kind, name, key, body, crc, chain)
        columns += content
        if size > limits.APPEND_SIZE_BYTES_MAX:
            return 0  # the general path refuses it, unless sealing has made it that large
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
                    number = self._numbers.get(run) or connection.execute(NUMBER_OF_RUN, (run,)).get
                    connection.execute(texts[count - 1], (run, number, fence, after_seq - count, *columns))
                except apsw.ConstraintError as error:
                    # no such fence or head, or the number is that of an erased run
                    self._numbers.pop(run, None)
                    database.undo(connection, error)
                    return 0
                except BaseException as error:
                    database.undo(connection, error)
                    if isinstance(error, apsw.Error):
                        raise database.translate(error, connection) from error
                    raise
                self._numbers[run] = number
                if not database.guard.has_held():
                    database.confirm(connection)
                if synced:
                    database.dirty = False
                    database.heads.note(run, fence, seq, chain)
                if database.waiters or database.wal_pages >= database.fold_at:
                    database.note_commit(synced=synced)
            finally:
                try:
                    database.locks.end_turn()
                    database.guard.allow_recovery()
                except OSError as error:
                    database.locks.end_turn_late(error)
        return seq

    def _commit(self, items: Sequence[Append]) -> list[AppendOutcome]:
        alike = [(count, list(some)) for count, some in groupby(items, _count_plain)]
        synced = any(item.synced for item in items)
        outcomes: list[AppendOutcome] = []

        def note() -> None:
            for item, outcome in zip(items, outcomes, strict=True):
                if item.events and isinstance(outcome, Appended):
                    self._database.heads.note(item.run, item.fence, outcome.head, item.events[-1].chain)

        # Noted within the turn: behind it another process could have deleted the run.
        database = self._database
        with (
            database.writing,
            database.transaction(synced=synced, then=note if synced else None) as connection,
        ):
            for count, some in alike:
                if count:
                    outcomes += self._append_alike(connection, count, some)
                else:
                    outcomes += [_apply(connection, item) for item in some]
        return outcomes

    def _append_alike(
        self, connection: apsw.Connection, count: int, items: Sequence[Append]
    ) -> list[AppendOutcome]:
        """Items of so many plain events each, inside an open transaction, by one call of the database.

        The statement is the one that appends an item alone: it has the fence and the head in it, so nothing
        is looked up before it or remembered from earlier. An item that it refuses is judged by itself.
        """
        numbers = self._numbers
        for run in {item.run for item in items}.difference(numbers):
            number = connection.execute(NUMBER_OF_RUN, (run,)).get
            if number is not None:
                numbers[run] = number
        outcomes: list[AppendOutcome] = []
        while len(outcomes) < len(items):
            try:
                connection.executemany(
                    APPEND_EVENTS[count - 1], _bindings(items, len(outcomes), numbers, outcomes)
                )
            except apsw.ConstraintError:  # it undoes its own statement, not those before it
                item = items[len(outcomes)]
                numbers.pop(item.run, None)  # it may be that of an erased run
                outcomes.append(_apply(connection, item))
        return outcomes


def _count_plain(item: Append) -> int:
    """How many events one statement writes for the item; 0 if it is not one of a few plain events.

    Raises TooLarge.
    """
    _, fence, seq, events, blobs, consumed, status, _, _ = item
    count = len(events)
    if 0 < count <= len(APPEND_EVENTS) and not blobs and not consumed and status is None:
        size = 0
        for event in events:
            seq += 1
            if event[0] != seq or event[5] != fence:
                break
            size += len(event[6])
        else:
            if size <= limits.APPEND_SIZE_BYTES_MAX:
                return count
    check_item(item)
    return 0


def _bindings(
    items: Sequence[Append], begin: int, numbers: dict[str, int], outcomes: list[AppendOutcome]
) -> Iterator[tuple[object, ...]]:
    """What the statement gets for each item; when the next one is asked for, the one before is written."""
    for at in range(begin, len(items)):
        run, fence, after_seq, events, *_ = items[at]
        columns: list[object] = []
        for seq, moment, kind, name, key, _, body, crc, chain in events:
            columns += (seq, moment, kind, name, key, body, crc, chain)
        yield (run, numbers.get(run), fence, after_seq, *columns)
        outcomes.append(_new(Appended, (after_seq + len(events),)))


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
