"""Appends: one event, or any batch, in one round trip; a hasty append without waiting for one.

It knows which items one statement can append, and what an answer means. The invariant: an item is in the
journal completely or not at all, whatever happens to the items around it; the statement that moves the head
also writes. Group commit of threads is not done here but above the port, where it serves every store.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from psycopg.pq.abc import PGresult

from holdfast.model.store_rows import Append, Appended, AppendOutcome, Blob, Lease, Refusal
from holdfast.stores.bounds import check_item, check_items
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.connections import Database, Stage
from holdfast.stores.postgres.wire.append_pipeline import ask, ask_one, is_taken, post, state_of, taken_of
from holdfast.stores.postgres.wire.append_requests import (
    Request,
    brought,
    few_events,
    is_plain,
    lock_runs,
    many_runs,
    one_item,
    plain_text,
    referred,
    request_of,
)

T = TypeVar("T")
_new = tuple.__new__


class Appender:
    """The port's ``append`` over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        """See ``StorePort.append``."""
        database = self._database
        if len(items) == 1 and items[0].synced and not database.polls:
            return [self._one(items[0])]
        if not items:
            database.check()
            return []
        check_items(items)
        synced = any(item.synced for item in items)
        request = None if database.polls else request_of(items, synced=synced)
        if request is not None and not synced and all(item.hasty for item in items):
            return self._posted(items, request)
        outcomes = self._committed(items, request, synced=synced)
        for number, outcome in enumerate(outcomes):
            if isinstance(outcome, Refusal):
                outcomes[number] = self._mended(items[number], outcome)
        return outcomes

    def _one(self, item: Append) -> AppendOutcome:
        """The common case without its loops: one item that is synced."""
        database = self._database
        flushed = database.flushed
        mark = flushed.mark()
        request = few_events(item)
        if request is None:
            check_item(item)
            request = one_item(item, synced=True)
            reply = self._reply(request, repeatable=bool(item.events))
        else:
            with database.line:
                at_once = database.ask_at_once(request)
            reply = at_once or self._reply(request, repeatable=True)
        if reply.ntuples and reply.get_value(0, 0) is None:
            flushed.cover(mark)
            return _new(Appended, (item.upto_seq,))
        outcome = self._outcome(item, reply)
        if isinstance(outcome, Refusal):
            return self._mended(item, outcome)
        flushed.cover(mark)
        return outcome

    def put_back(self) -> None:
        """Append again what was posted and did not arrive, if its place is still free."""
        for item in self._database.flushed.astray():
            self._committed([item], one_item(item, synced=False), synced=False)

    def _posted(self, items: Sequence[Append], request: Request) -> list[AppendOutcome]:
        """Sent, without waiting. A refusal shows at the next append, which builds on this one."""
        database = self._database
        sent: Sequence[Append] = ()
        try:
            self._by_line(lambda connection, _: database.flushed.keep(*post(connection, request, items)))
            sent = items
        finally:
            database.flushed.add(*sent)
        if database.flushed.is_long:
            database.sync()
        return [Appended(item.upto_seq) for item in items]

    def _by_line(self, act: Callable[[Connection, Stage], T], *, repeatable: bool = True) -> T:
        """One at a time, so that the next statement comes after what was posted."""
        with self._database.line:
            return self._database.attempt(act, repeatable=repeatable, settles=False)

    def _committed(
        self, items: Sequence[Append], request: Request | None, *, synced: bool
    ) -> list[AppendOutcome]:
        """One transaction; afterwards it records what a power loss could take."""
        database, flushed = self._database, self._database.flushed
        mark = flushed.mark()
        outcomes: list[AppendOutcome] = []
        try:
            if request is None:
                outcomes = self._transacted(items, synced=synced)
            else:
                outcomes = self._asked(items, request, synced=synced)
        finally:
            if not synced:
                taken = zip(items, outcomes, strict=False)  # empty if it is unknown
                flushed.add(*(item for item, outcome in taken if isinstance(outcome, Appended)))
        if synced and any(isinstance(outcome, Appended) for outcome in outcomes):
            flushed.cover(mark)
        elif flushed.is_long:
            database.sync()
        return outcomes

    def _asked(self, items: Sequence[Append], request: Request, *, synced: bool) -> list[AppendOutcome]:
        """By one statement, which is its own transaction."""
        reply = self._reply(request, repeatable=_are_guarded(items))
        if len(items) == 1:
            return [self._outcome(items[0], reply)]
        taken = taken_of(reply, request.runs)
        if taken is None:
            return [Appended(item.upto_seq) for item in items]
        # Items of one run were sent as one, so all of them were refused: now each is judged by itself.
        left = [item for item in items if item.run not in taken]
        rest = iter(self._transacted(left, synced=synced))
        return [Appended(item.upto_seq) if item.run in taken else next(rest) for item in items]

    def _transacted(self, items: Sequence[Append], *, synced: bool) -> list[AppendOutcome]:
        """Any items, by a transaction of several statements that waits for no answer.

        Each statement knows by itself whether it may write.
        """
        together, alone = _apart(items)
        begin = [plain_text(text) for text in self._database.beginning()]
        if len(items) > 1:
            begin.append(lock_runs({item.run for item in items}))
        requests = [one_item(items[number], synced=synced) for number in alone]
        if together:
            requests.insert(0, many_runs([items[number] for number in together], synced=synced))
        whole = (*begin, *requests, plain_text(b"COMMIT"))
        replies = self._replies(whole, repeatable=_are_guarded(items))[len(begin) : -1]
        outcomes: dict[int, AppendOutcome] = {}
        if together:
            taken = taken_of(replies.pop(0), len(together))
            for number in together:
                is_in = taken is None or items[number].run in taken
                outcomes[number] = (
                    Appended(items[number].upto_seq) if is_in else self._refusal_now(items[number])
                )
        for number, reply in zip(alone, replies, strict=True):
            outcomes[number] = self._outcome(items[number], reply)
        return [outcomes[number] for number in range(len(items))]

    def _outcome(self, item: Append, reply: PGresult) -> AppendOutcome:
        if is_taken(reply):
            return Appended(item.upto_seq)
        state = state_of(reply)
        refusal = None if state is None else _refusal(item, *state)
        return refusal or self._refusal_now(item)

    def _reply(self, request: Request, *, repeatable: bool) -> PGresult:
        """What the server answers to a request that is its own transaction."""
        keep = self._database.flushed.keep

        def write(connection: Connection, stage: Stage) -> PGresult:
            stage.committing = True
            return ask_one(connection, request, keep=keep)

        return self._by_line(write, repeatable=repeatable)

    def _replies(self, requests: Sequence[Request], *, repeatable: bool) -> list[PGresult]:
        """What the server answers to requests that are sent at once, with their commit."""
        database = self._database
        keep, prepares = database.flushed.keep, not database.polls

        def write(connection: Connection, stage: Stage) -> list[PGresult]:
            stage.committing = True
            return ask(connection, requests, prepares=prepares, keep=keep)

        return self._by_line(write, repeatable=repeatable)

    def _mended(self, item: Append, refusal: Refusal) -> AppendOutcome:
        """If the server lost flushed commits, and the head with them: write those again, then the item."""
        if refusal.reason != "conflict" or refusal.head >= item.after_seq:
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
        return self._committed([*lost, item._replace(synced=True)], None, synced=True)[-1]

    def _refusal_now(self, item: Append) -> Refusal:
        """Why the item is refused, by the current state of its run."""
        addresses = referred(item.blobs)

        def look(connection: Connection) -> tuple[tuple[Any, ...] | None, frozenset[str]]:
            row = connection.execute(sql.HEAD_AND_LEASE, (item.run,)).fetchone()
            found = connection.execute(sql.FIND_BLOBS, (addresses,)).fetchall() if addresses else []
            return row, frozenset(address for (address,) in found)

        row, found = self._database.read(look)
        if row is None:
            return Refusal("unknown")
        # The run may have changed since: if the reason is gone, report a conflict.
        return _refusal(item, row[0], Lease(*row[1:]), found) or Refusal(
            "conflict", item.after_seq, Lease(item.fence)
        )


def missing(connection: Connection, blobs: Sequence[Blob]) -> tuple[str, ...]:
    """The addresses that are neither stored nor in the append.

    Stored ones are locked for this transaction.
    """
    addresses = referred(blobs)
    if not addresses:
        return ()
    found = {row[0] for row in connection.execute(sql.LOCK_BLOBS, (addresses,))}
    return tuple(address for address in addresses if address not in found)


def keep_blobs(connection: Connection, blobs: Sequence[Blob], at: float) -> None:
    """Put each, or touch the one without data, inside an open transaction."""
    for address, data in brought(blobs).items():
        connection.execute(sql.PUT_BLOB, (address, at, data))
    if addresses := referred(blobs):
        connection.execute(sql.TOUCH_BLOBS, (at, addresses))


def _are_guarded(items: Sequence[Append]) -> bool:
    """Whether the head that they move guards all of them against being written twice.

    A bare status has no such guard.
    """
    return all(item.events for item in items)


def _apart(items: Sequence[Append]) -> tuple[list[int], list[int]]:
    """The numbers of the items that one statement can append together, and of those that come alone.

    Together come plain items of different runs, which do not depend on each other.
    """
    often = Counter(item.run for item in items)
    together = [number for number, item in enumerate(items) if often[item.run] == 1 and is_plain(item)]
    if len(together) == 1:  # it needs no arrays
        together = []
    return together, sorted({*range(len(items))} - {*together})


def _refusal(item: Append, head: int, lease: Lease, found: frozenset[str]) -> Refusal | None:
    """Why an item is refused; a stale fence is reported first, before missing blobs."""
    if lease.fence != item.fence:
        return Refusal("fenced", head, lease)
    if head != item.after_seq:
        return Refusal("conflict", head, lease)
    absent = tuple(address for address in referred(item.blobs) if address not in found)
    return Refusal("missing", head, lease, absent) if absent else None
