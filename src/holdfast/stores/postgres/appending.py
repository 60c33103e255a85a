"""Appending to journals: one event in one round trip, and any batch in one, too.

Knows the guarded statement and what its answer means. The invariant: an item is in the journal whole or not at all,
whatever happens to the items around it; the statement that moves the head is the one that writes. That threads share
commits is not decided here but above the port, where it serves every store.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from holdfast import limits
from holdfast.model.events import Event
from holdfast.model.rows import Append, Appended, AppendOutcome, Blob, Lease, Refusal, inbox_space
from holdfast.stores.bounds import append_too_large, check_items
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.database import Database, Stage
from holdfast.stores.postgres.escaping import escaped

Answer = tuple[Any, ...] | None


class Appender:
    """The port's ``append`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """See ``StorePort.append``."""
        database = self._database
        if len(items) == 1 and not database.polls and _is_plain(items[0]):
            if len(items[0].events[0].body) > limits.APPEND_SIZE_BYTES_MAX:
                raise append_too_large(items[0].run, len(items[0].events[0].body))
        else:
            check_items(items)
        if not items:
            database.check()
            return []
        outcomes = self._committed(items)
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Refusal) and outcome.head < items[number].after_seq:
                outcomes[number] = self._mended(items[number], outcome)
        return outcomes

    def _committed(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """One transaction; afterwards it is known what of it a loss of power could take."""
        database, flushed = self._database, self._database.flushed
        synced = any(item.synced for item in items)
        mark = flushed.mark()
        # Guarded by the head that they move, events cannot be written twice; a bare status could be.
        repeatable = all(item.events for item in items)
        outcomes: list[AppendOutcome] = []
        try:
            rows = database.attempt(self._act(items, synced=synced), repeatable=repeatable)
            outcomes = [self._outcome(item, row) for item, row in zip(items, rows, strict=True)]
        finally:
            if not synced:
                taken = zip(items, outcomes, strict=False)  # none, if that is not known
                flushed.add(*(item for item, outcome in taken if isinstance(outcome, Appended)))
        if synced and any(isinstance(outcome, Appended) for outcome in outcomes):
            flushed.cover(mark)
        elif flushed.is_long:
            database.sync()
        return outcomes

    def _act(self, items: Sequence[Append], *, synced: bool) -> Callable[[Connection, Stage], list[Answer]]:
        database = self._database
        if len(items) == 1 and not database.polls and _is_plain(items[0]):
            values = _plain_values(items[0])

            def write_one(connection: Connection, stage: Stage) -> list[Answer]:
                stage.committing = True  # the statement is its own transaction
                return [connection.execute(sql.APPEND_EVENT, values, prepare=True, binary=True).fetchone()]

            return write_one

        def write_all(connection: Connection, stage: Stage) -> list[Answer]:
            stage.committing = True  # all is sent at once, the commit too
            return _in_one_go(database, connection, items, synced=synced)

        return write_all

    def _mended(self, item: Append, refusal: Refusal) -> AppendOutcome:
        """The server lost what was only flushed, and the head with it: put that back, and the item behind it."""
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
        return self._committed([*lost, item._replace(synced=True)])[-1]

    def _outcome(self, item: Append, row: Answer) -> AppendOutcome:
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
) -> list[Answer]:
    """A transaction of which nothing waits for an answer: each statement by itself knows whether it may write."""
    with connection.pipeline():
        database.begin(connection)
        if len(items) > 1:
            connection.execute(sql.LOCK_RUNS, (sorted({item.run for item in items}),), prepare=True)
        often = Counter(item.run for item in items)
        single = [item for item in items if often[item.run] == 1 and _is_plain(item)]
        together = _apply_all(connection, single, synced=synced) if single else None
        cursors = {
            number: _apply(connection, item, synced=synced)
            for number, item in enumerate(items)
            if often[item.run] > 1 or not _is_plain(item)
        }
        connection.execute("COMMIT")
    rows = {row[0]: row[1:] for row in together} if together is not None else {}
    return [
        cursors[number].fetchone() if number in cursors else rows.get(item.run)
        for number, item in enumerate(items)
    ]


def _plain_values(item: Append) -> dict[str, Any]:
    (event,) = item.events
    return {
        "run": item.run, "fence": item.fence, "after_seq": item.after_seq, "head": event.seq, "status": None,
        "commit": "on" if item.synced else "off", "seq": event.seq, "at": event.at, "kind": event.kind,
        "name": escaped(event.name), "key": escaped(event.key), "event_fence": event.fence, "body": event.body,
        "crc": event.crc,
    }  # fmt: skip


def _apply_all(connection: Connection, items: Sequence[Append], *, synced: bool) -> Any:
    """Items of one event each, of different runs, which have nothing to do with each other."""
    events = [item.events[0] for item in items]
    values = {
        "runs": [item.run for item in items], "run_fences": [item.fence for item in items],
        "after_seqs": [item.after_seq for item in items], "commit": "on" if synced else "off", **_columns(events),
    }  # fmt: skip
    return connection.execute(sql.APPEND_MANY, values, prepare=True, binary=True)


def _columns(events: Sequence[Event]) -> dict[str, Any]:
    return {
        "seqs": [e.seq for e in events], "ats": [e.at for e in events], "kinds": [e.kind for e in events],
        "names": [escaped(e.name) for e in events], "keys": [escaped(e.key) for e in events],
        "fences": [e.fence for e in events], "bodies": [e.body for e in events], "crcs": [e.crc for e in events],
    }  # fmt: skip


def _apply(connection: Connection, item: Append, *, synced: bool) -> Any:
    events = item.events
    values: dict[str, Any] = {
        "run": item.run, "fence": item.fence, "after_seq": item.after_seq,
        "head": events[-1].seq if events else item.after_seq, "status": item.status, "commit": "on" if synced else "off",
        **_columns(events),
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
