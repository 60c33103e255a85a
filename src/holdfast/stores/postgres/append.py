"""Appends: one event, or any batch, in one round trip; a hasty append without waiting for one.

It knows the guarded statements and their answers. The invariant: an item is in the journal completely or not
at all, whatever happens to the items around it; the statement that moves the head also writes. Group commit
of threads is not done here but above the port, where it serves every store.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from psycopg import RawCursor

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
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.connections import Database, Stage
from holdfast.stores.postgres.wire.append_pipeline import ask, post, taken_of
from holdfast.stores.postgres.wire.binary_protocol import columns_of, is_plain, request_of
from holdfast.stores.postgres.wire.nul_escape import escaped
from holdfast.stores.row_checksums import status_crc

T = TypeVar("T")
Answer = tuple[Any, ...] | bool | None
"""The result of an item: its run as it was before; only whether it was accepted.

Or None for an unknown run.
"""


class Appender:
    """The port's ``append`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """See ``StorePort.append``."""
        database = self._database
        if not items:
            database.check()
            return []
        is_plain = not database.polls and _are_plain(items)
        if not is_plain or len(items) > 1:
            check_items(items)
        elif len(items[0].events[0].body) > limits.APPEND_SIZE_BYTES_MAX:
            raise append_too_large(items[0].run, len(items[0].events[0].body))
        if is_plain and not any(item.synced or not item.hasty for item in items):
            return self._posted(items)
        outcomes = self._committed(items, is_plain=is_plain)
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Refusal) and outcome.head < items[number].after_seq:
                outcomes[number] = self._mended(items[number], outcome)
        return outcomes

    def put_back(self) -> None:
        """Append again what was posted and did not arrive, if its place is still free."""
        for item in self._database.flushed.astray():
            self._committed([item], is_plain=True)

    def _posted(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """Sent, without waiting. A refusal shows at the next append, which builds on this one."""
        database, request = self._database, request_of(items, synced=False)
        sent: Sequence[Append] = ()
        try:
            self._by_line(lambda connection, _: database.flushed.keep(*post(connection, request)))
            sent = items
        finally:
            database.flushed.add(*sent)
        if database.flushed.is_long:
            database.sync()
        return [Appended(item.events[-1].seq) for item in items]

    def _by_line(self, act: Callable[[Connection, Stage], T]) -> T:
        """One at a time, so that the next statement comes after what was posted."""
        with self._database.line:
            return self._database.attempt(act, repeatable=True, settles=False)

    def _committed(self, items: Sequence[Append], *, is_plain: bool) -> list[AppendOutcome]:
        """One transaction; afterwards it records what a power loss could take."""
        database, flushed = self._database, self._database.flushed
        synced = any(item.synced for item in items)
        mark = flushed.mark()
        outcomes: list[AppendOutcome] = []
        try:
            outcomes = (
                self._asked(items, synced=synced) if is_plain else self._transacted(items, synced=synced)
            )
        finally:
            if not synced:
                taken = zip(items, outcomes, strict=False)  # empty if it is unknown
                flushed.add(*(item for item, outcome in taken if isinstance(outcome, Appended)))
        if synced and any(isinstance(outcome, Appended) for outcome in outcomes):
            flushed.cover(mark)
        elif flushed.is_long:
            database.sync()
        return outcomes

    def _asked(self, items: Sequence[Append], *, synced: bool) -> list[AppendOutcome]:
        """Plain items by one statement, which is its own transaction."""
        database, request = self._database, request_of(items, synced=synced)

        def write(connection: Connection, stage: Stage) -> set[str]:
            stage.committing = True
            reply, astray = ask(connection, request)
            if astray:
                database.flushed.keep(*astray)
            return taken_of(reply)

        taken = self._by_line(write)
        return [
            Appended(item.events[-1].seq) if item.run in taken else self._refusal_now(item) for item in items
        ]

    def _transacted(self, items: Sequence[Append], *, synced: bool) -> list[AppendOutcome]:
        """Any items, by a transaction of several statements."""
        database = self._database

        def write(connection: Connection, stage: Stage) -> list[Answer]:
            stage.committing = True  # everything is sent at once, including the commit
            return _in_one_go(database, connection, items, synced=synced)

        # The head that they move guards events against being written twice; a bare status change has no such
        # guard.
        rows = database.attempt(write, repeatable=all(item.events for item in items))
        return [self._outcome(item, row) for item, row in zip(items, rows, strict=True)]

    def _mended(self, item: Append, refusal: Refusal) -> AppendOutcome:
        """The server lost flushed commits, and the head with them: write those again, then the item."""
        if refusal.reason != "conflict":
            return refusal
        now = self._refusal_now(item)
        if now.reason != "conflict" or now.lease.fence != item.fence:
            return now
        lost = (
            []
            if now.head == item.after_seq
            else self._database.flushed.lost(item.run, now.head, item.after_seq)
        )
        if lost is None:
            return refusal
        return self._committed([*lost, item._replace(synced=True)], is_plain=False)[-1]

    def _outcome(self, item: Append, row: Answer) -> AppendOutcome:
        if isinstance(row, bool):
            return Appended(item.events[-1].seq) if row else self._refusal_now(item)
        if row is None:
            return Refusal("unknown")
        taken, head, *rest = row
        if taken is not None:
            return Appended(item.events[-1].seq if item.events else item.after_seq)
        found = set(rest[-1])
        missing = tuple(address for address in _referred(item.blobs) if address not in found)
        return _refusal(item, head, Lease(*rest[:6]), missing) or self._refusal_now(item)

    def _refusal_now(self, item: Append) -> Refusal:
        """The run changed while the statement waited for its row: report the current state as the reason."""
        row = self._database.read(lambda c: c.execute(sql.HEAD_AND_LEASE, (item.run,)).fetchone())
        if row is None:
            return Refusal("unknown")
        # If the reason is gone by now, report a conflict.
        return _refusal(item, row[0], Lease(*row[1:]), ()) or Refusal(
            "conflict", item.after_seq, Lease(item.fence)
        )


def missing(connection: Connection, blobs: Sequence[Blob]) -> tuple[str, ...]:
    """The addresses that are neither stored nor in the append.

    Stored ones are locked for this transaction.
    """
    referred = _referred(blobs)
    if not referred:
        return ()
    found = {row[0] for row in connection.execute(sql.LOCK_BLOBS, (referred,))}
    return tuple(address for address in referred if address not in found)


def keep_blobs(connection: Connection, blobs: Sequence[Blob], at: float) -> None:
    """Put each, or touch the one without data, inside an open transaction."""
    for address, data in sorted(_brought(blobs).items()):
        connection.execute(sql.PUT_BLOB, (address, at, data))
    if referred := _referred(blobs):
        connection.execute(sql.TOUCH_BLOBS, (at, referred))


def _in_one_go(
    database: Database, connection: Connection, items: Sequence[Append], *, synced: bool
) -> list[Answer]:
    """A transaction that waits for no answer: each statement knows by itself whether it may write."""
    with connection.pipeline():
        database.begin(connection)
        if len(items) > 1:
            connection.execute(sql.LOCK_RUNS, (sorted({item.run for item in items}),))
        often = Counter(item.run for item in items)
        single = [item for item in items if often[item.run] == 1 and is_plain(item)]
        together = _apply_all(connection, single, synced=synced) if len(single) > 1 else None
        cursors = {
            number: _apply(connection, item, synced=synced)
            for number, item in enumerate(items)
            if together is None or often[item.run] > 1 or not is_plain(item)
        }
        connection.execute("COMMIT")
    taken = {row[0] for row in together} if together is not None else set()
    return [
        cursors[number].fetchone() if number in cursors else (item.run in taken)
        for number, item in enumerate(items)
    ]


def _apply_all(connection: Connection, items: Sequence[Append], *, synced: bool) -> Any:
    """Items of one event each, of different runs, which do not depend on each other."""
    return RawCursor(connection).execute(sql.APPEND_MANY, columns_of(items, synced=synced), binary=True)


def _apply(connection: Connection, item: Append, *, synced: bool) -> Any:
    events = item.events
    values: dict[str, Any] = {
        "run": item.run, "fence": item.fence, "after_seq": item.after_seq,
        "head": events[-1].seq if events else item.after_seq, "status": item.status,
        "status_crc": None if item.status is None else status_crc(item.run, item.status),
        "commit": "on" if synced else "off",
        "seqs": [e.seq for e in events], "ats": [e.at for e in events], "kinds": [e.kind for e in events],
        "names": [escaped(e.name) for e in events], "keys": [escaped(e.key) for e in events],
        "fences": [e.fence for e in events], "bodies": [e.body for e in events],
        "crcs": [e.crc for e in events], "chains": [e.chain for e in events],
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


def _are_plain(items: Sequence[Append]) -> bool:
    """Whether one statement can append them all."""
    if len(items) == 1:
        return is_plain(items[0])
    return all(map(is_plain, items)) and len({item.run for item in items}) == len(items)


def _brought(blobs: Sequence[Blob]) -> dict[str, bytes]:
    return {address: data for address, data in blobs if data is not None}


def _referred(blobs: Sequence[Blob]) -> list[str]:
    """The addresses that must already exist, each once, in order."""
    brought = _brought(blobs)
    return list(dict.fromkeys(address for address, data in blobs if data is None and address not in brought))


def _refusal(item: Append, head: int, lease: Lease, absent: tuple[str, ...]) -> Refusal | None:
    """Why an item is refused; a stale fence is reported first, before missing blobs."""
    if lease.fence != item.fence:
        return Refusal("fenced", head, lease)
    if head != item.after_seq:
        return Refusal("conflict", head, lease)
    return Refusal("missing", head, lease, absent) if absent else None
