"""The port's methods over one schema of a PostgreSQL database.

It knows the statements and the rows; ``connections`` has the pool, retries and errors, ``append`` the hot
path. The invariant: every method is one transaction, and what it calls durable is so on return.
"""

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, LiteralString

from holdfast import limits
from holdfast.errors import AccessDenied, StoreError, StoreReadOnly
from holdfast.model.events import Event
from holdfast.model.store_rows import (
    Append,
    AppendOutcome,
    Blob,
    BlobInfo,
    CallNote,
    Cursors,
    Finding,
    Grant,
    Lease,
    Liveness,
    Record,
    Removal,
    RunRow,
    RunSize,
    inbox_space,
)
from holdfast.stores import bounds, row_checksums, server_owners
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.address import address_of
from holdfast.stores.postgres.append import Appender, keep_blobs, missing
from holdfast.stores.postgres.checked_rows import find_record, is_sound, raise_fences, stored_fences
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.connections import Database
from holdfast.stores.postgres.doctor import examined
from holdfast.stores.postgres.errors import is_damage
from holdfast.stores.postgres.remove import deleted
from holdfast.stores.postgres.search.create import drop_index, is_made
from holdfast.stores.postgres.search.index import PostgresIndex, find_index
from holdfast.stores.postgres.vacuum import reclaimed
from holdfast.stores.postgres.wait import Waiting
from holdfast.stores.postgres.wire.nul_escape import escaped, events_of
from holdfast.stores.row_checksums import judged_row

_SEQ_MAX: Final = (1 << 63) - 1
_INBOX: Final = inbox_space("")


class _Refused(Exception):
    """Roll back the transaction."""


class PostgresStore:
    """A store in a schema of a PostgreSQL database, created if it does not exist.

    Implements ``StorePort``.
    """

    is_sealed: bool = False

    def __init__(self, name: str, password: str | None = None) -> None:
        """Open the store of the part of a URL after ``postgresql://``."""
        self._database: Final = Database(address_of(name, password))
        self._appender: Final = Appender(self._database)
        self._waiting: Final = Waiting(self._database)
        self._owner: Final = server_owners.owner_here()
        self._index: PostgresIndex | None = None
        self._is_refused = False
        self._indexing: Final = threading.Lock()

    @property
    def url(self) -> str:
        return self._database.address.url

    @property
    def owner(self) -> str:
        return self._owner

    @property
    def owned_by(self) -> str | None:
        return None

    @property
    def is_open(self) -> bool:
        """Whether this handle can still be used in this process."""
        return not self._database.is_gone

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow, *, origin_revision: int = 0, synced: bool = True) -> bool:
        bounds.check_run_body(row.run, row.body)
        sums = {
            "crc": row_checksums.run_crc(row),
            "status_crc": row_checksums.status_crc(row.run, row.status),
        }
        values = {**row._asdict(), **sums}

        def create(connection: Connection) -> None:
            if row.origin is not None:
                _must(connection, sql.FORK_RUN, (row.origin, origin_revision))
            # a shared lock, so that no delete of a run of this name commits between this read and the insert
            fence, _ = stored_fences(connection, sql.FENCES, self.url)
            _must(connection, sql.CREATE_RUN, {**values, "fence": fence})

        return self._guarded(create, synced=synced)

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        found = self._database.read(lambda c: c.execute(sql.FIND_RUN, (run,), binary=True).fetchone())
        row = None if found is None else judged_row(found)
        return row if row is None or damaged else row_checksums.sound(row, self.url)

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        bounds.check_page("runs", limit, limits.RUN_PAGE_MAX)
        values: dict[str, Any] = {"first": prefix, "behind": sql.after_prefix(prefix), "limit": limit}
        statement = sql.LIST_RUNS
        if before is not None:
            statement = sql.LIST_RUNS_BEFORE
            values |= {"created_at": before.created_at, "run": before.run}
        rows = self._database.read(lambda c: c.execute(statement, values, binary=True).fetchall())
        return [judged_row(row) for row in rows]

    def list_forks(self, run: str, *, after: str = "", limit: int) -> list[RunRow]:
        bounds.check_page("forks", limit, limits.RUN_PAGE_MAX)
        values = (run, after, limit)
        rows = self._database.read(lambda c: c.execute(sql.LIST_FORKS, values, binary=True).fetchall())
        return [judged_row(row) for row in rows]

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        bounds.check_run_body(run, body)

        def swap(connection: Connection) -> None:
            row = judged_row(_found(connection, sql.FIND_TO_SWAP, (run,)))
            _refuse_if(row.revision != revision)
            crc = row_checksums.run_crc(row_checksums.sound(row, self.url)._replace(body=body))
            of_status = row_checksums.status_crc(run, status)
            _must(connection, sql.SWAP_RUN, (status, of_status, body, crc, run, revision))

        return self._guarded(swap)

    def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
        bounds.check_removals(removals)
        answers = self._database.write(lambda c: deleted(c, removals, self.url), synced=True)
        self._waiting.wake_here()
        return answers

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        outcomes = self._appender.append(items)
        self._waiting.wake_here()
        return outcomes

    def read_events(
        self,
        run: str,
        *,
        after_seq: int = 0,
        upto_seq: int | None = None,
        limit: int,
        kinds: Collection[str] = (),
        skip: int = 0,
    ) -> list[Event]:
        bounds.check_page("events", limit, limits.EVENT_PAGE_MAX)
        bounds.check_skip(kinds, skip)
        values: Any = (run, after_seq, _SEQ_MAX if upto_seq is None else upto_seq, limit)
        read = sql.READ_EVENTS
        if kinds:
            read, values = sql.READ_KINDS, (*values[:3], [*kinds], limit, skip)
        return events_of(self._database.read(lambda c: c.execute(read, values, binary=True).fetchall()))

    def count_kinds(self, run: str, *, after_seq: int = 0, upto_seq: int = _SEQ_MAX) -> dict[str, int]:
        values = run, after_seq, upto_seq
        return dict(self._database.read(lambda c: c.execute(sql.COUNT_KINDS, values).fetchall()))

    def replace_events(
        self,
        run: str,
        *,
        fence: int,
        revision: int,
        after_seq: int,
        upto_seq: int,
        events: Sequence[Event],
        blobs: Sequence[Blob] = (),
        at: float = 0.0,
    ) -> bool:
        bounds.check_replacement(run, after_seq, upto_seq, events, blobs)

        def replace(connection: Connection) -> None:
            number, origin_seq, head = _found(connection, sql.FIND_GUARDED, (run, fence, revision))
            _refuse_if(bool(missing(connection, blobs)))
            assert origin_seq <= after_seq < upto_seq <= head, (
                f"run {run} has no stretch ({after_seq}, {upto_seq}]"
            )
            connection.execute(sql.DELETE_STRETCH, (number, after_seq, upto_seq))
            connection.cursor().executemany(sql.PUT_EVENT, [(number, *_kept(event)) for event in events])
            keep_blobs(connection, blobs, max(at, events[-1].at))
            connection.execute(sql.BUMP_REVISION, (run,))

        return self._guarded(replace)

    def adopt_events(self, run: str, *, of: str, fence: int, revision: int) -> bool:
        def adopt(connection: Connection) -> None:
            # All locks are taken in one order: the fences, then the rows by name.
            raise_fences(connection, 0, self.url)
            connection.execute(sql.LOCK_RUNS, ([run, of],))
            number, _, head = _found(connection, sql.FIND_GUARDED, (run, fence, revision))
            other, other_fence, other_head = _found(connection, sql.FIND_LOCKED, (of,))
            _refuse_if(connection.execute(sql.HAS_FORKS, (of,)).fetchone() is not None)
            assert other_head == head, f"{run} ends at {head} and {of} at {other_head}"
            row, taken = (
                row_checksums.sound(judged_row(_found(connection, sql.FIND_RUN, (name,))), self.url)
                for name in (run, of)
            )
            crc = row_checksums.run_crc(row_checksums.adopted(row, taken))
            sums = (crc, row_checksums.status_crc(run, row.status))
            connection.execute(sql.DELETE_EVENTS, (number,))
            connection.execute(sql.FORGET_RUN, (number,))
            kept = (row.run, row.birth, row.created_at, row.status, row.body, row.revision, *row.lease)
            connection.execute(sql.TAKE_PLACE, (*kept, row.agent, row.due_at, *sums, other))
            connection.execute(sql.DELETE_SPACE, (inbox_space(of),))
            raise_fences(connection, other_fence + 1, self.url)
            connection.execute(sql.NOTIFY, (of,))

        return self._guarded(adopt)

    def measure(self, run: str) -> RunSize:
        ((events, size),) = self._database.read(lambda c: c.execute(sql.MEASURE, (run,)).fetchall())
        return RunSize(events, size)

    def note_call(self, run: str, content: bytes, *, fence: int, after_seq: int) -> None:
        """Nothing: each place on the server would cost a request."""

    def find_call_note(self, run: str) -> CallNote | None:  # noqa: ARG002 - there are none
        self._database.check()
        return None

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        bounds.check_blobs(blobs)
        for address, data in blobs:
            assert data is not None, f"blob {address} is put without content"
        self._database.write(lambda c: keep_blobs(c, blobs, at), synced=True)

    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        names = list(addresses)
        rows = self._database.read(lambda c: c.execute(sql.GET_BLOBS, (names,), binary=True).fetchall())
        found: dict[str, bytes] = dict(rows)
        return {address: found[address] for address in addresses if address in found}

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        # Flushed is enough: the next prune repeats a deletion that power loss undoes.
        names = sorted(set(addresses))
        return self._database.write(
            lambda c: c.execute(sql.DELETE_BLOBS, (names, untouched_since)).rowcount, synced=False
        )

    def scan_blobs(self, *, after: str = "", limit: int) -> list[BlobInfo]:
        bounds.check_page("blobs", limit, limits.BLOB_PAGE_MAX)
        rows = self._database.read(
            lambda c: c.execute(sql.SCAN_BLOBS, (after, limit), binary=True).fetchall()
        )
        return list(map(BlobInfo._make, rows))

    def blob_name(self, address: str) -> str:
        return address

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        fence, beat = (over.fence, over.beat) if over is not None else (-1, -1)

        def take(connection: Connection) -> Grant:
            values = (above, self.owner, at, at, lease_s, run, fence, beat)
            while True:
                taken = connection.execute(sql.TAKE_LEASE, values, binary=True).fetchone()
                if taken is not None:
                    connection.execute(sql.NOTIFY, (run,))
                    row = judged_row(taken)
                    return Grant(True, row.lease, None if row.damage else row)
                found = connection.execute(sql.GET_LEASE, (run,)).fetchone()
                lease = Lease() if found is None else Lease(*found)
                # Released between the two statements: a free lease refuses no caller.
                if found is None or (lease.owner and (lease.fence, lease.beat) != (fence, beat)):
                    return Grant(False, lease)

        grant = self._database.write(take, synced=True)
        self._waiting.wake_here()
        return grant

    def accept_loss(self, run: str) -> int:  # noqa: ARG002 - the server answers for what it acknowledged
        self._database.check()
        return 0

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        values = (list(fences), list(fences.values()), at)
        beaten = self._database.write(lambda c: c.execute(sql.BEAT, values).fetchall(), synced=False)
        return frozenset(fences) - {run for (run,) in beaten}

    def release(self, run: str, *, fence: int) -> bool:
        return self._database.write(
            lambda c: c.execute(sql.RELEASE, (run, fence)).rowcount == 1, synced=False
        )

    def probe(self, owner: str) -> Liveness:
        self._database.check()
        return server_owners.probe(owner)

    # -- the queue -------------------------------------------------------------------------------------------

    def claim(self, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
        bounds.check_claim(agents, limit)
        values = {
            "agents": list(agents),
            "at": at,
            "lease_s": lease_s,
            "limit": limit,
            "owner": self.owner,
        }

        def take(connection: Connection) -> list[RunRow]:
            rows = [judged_row(row) for row in connection.execute(sql.CLAIM, values, binary=True).fetchall()]
            damaged = [row.run for row in rows if row.damage]
            if damaged:  # no worker can run them, and they would block the others
                connection.execute(sql.GIVE_BACK, (damaged,))
            return rows

        claimed = row_checksums.undamaged(self._database.write(take, synced=True), self.url)
        return sorted(claimed, key=lambda row: (row.due_at, row.created_at, row.run))

    def list_held(self, agents: Sequence[str], *, after: str = "", limit: int) -> list[RunRow]:
        bounds.check_claim(agents, limit)
        values = (list(agents), after, limit)
        rows = self._database.read(lambda c: c.execute(sql.LIST_HELD, values, binary=True).fetchall())
        return [judged_row(row) for row in rows]

    def set_due(self, run: str, *, fence: int, due_at: float | None) -> bool:
        return self._guarded(lambda c: _must(c, sql.SET_DUE, (due_at, run, fence)))

    def call_up(self, run: str, *, at: float) -> bool:
        return self._guarded(lambda c: _must(c, sql.CALL_UP, (at, run)))

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        return self._database.read(lambda c: find_record(c, space, key, self.url))

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        bounds.check_record(space, key, body)

        def put(connection: Connection) -> None:
            if revision:
                _must(connection, sql.SWAP_RECORD, (body, crc, space, key, revision))
            elif connection.execute(sql.ADD_RECORD, (space, key, body, crc)).rowcount != 1:
                _refuse_if(is_sound(connection, space, key, self.url))
                _must(connection, sql.REPLACE_RECORD, (body, crc, space, key))
            _tell_of_letter(connection, space)

        crc = row_checksums.record_crc(space, key, revision + 1, body)
        return self._guarded(put, synced=synced)

    def scan_records(
        self, space: str, *, after: str = "", prefix: str = "", limit: int, damaged: bool = False
    ) -> list[Record]:
        bounds.check_page("records", limit, limits.RECORD_PAGE_MAX)

        def page(behind: str, count: int) -> list[Record]:
            values = {
                "space": space,
                "after": behind,
                "first": prefix,
                "behind": sql.after_prefix(prefix),
                "limit": count,
            }
            rows = self._database.read(lambda c: c.execute(sql.SCAN_RECORDS, values, binary=True).fetchall())
            return [row_checksums.judged_record(Record(*row[:4]), row[4]) for row in rows]

        return row_checksums.scanned(page, after, limit, self.url, damaged=damaged)

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        def delete(connection: Connection) -> None:
            _must(connection, sql.DELETE_RECORD, (space, key, revision))
            _tell_of_letter(connection, space)

        return self._guarded(delete)

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        return self._waiting.wait_for_change(cursors, timeout_s=timeout_s)

    def sync(self) -> None:
        self._database.sync()
        self._appender.put_back()

    def reclaim(self, *, thoroughly: bool = False) -> int:
        return reclaimed(self._database, thoroughly=thoroughly)

    def find_index(self, *, makes: bool = True) -> PostgresIndex | None:
        # before the lock: in a forked child a thread that does not exist there may hold it
        self._database.check()
        with self._indexing:
            if self._index is not None and not self._index.is_in_place():
                self._index.close()  # another process has replaced it: cached data of it would be wrong
                self._index = None
            is_wanted = self._index is None and not self._is_refused
            if is_wanted and (makes or self._database.read(is_made)):
                self._index = find_index(self._database.address)
                self._is_refused = self._index is None
            return self._index

    def drop_index(self, *, because: StoreError | None = None) -> bool:
        if because is not None and not is_damage(because):
            return False
        with self._indexing:
            lost, self._index = self._index, None
            if lost is not None:
                lost.close()
            try:
                if because is not None or self._database.read(is_made):
                    drop_index(
                        self._database,
                        None if lost is None else lost.identity,
                        is_damaged=because is not None,
                    )
            except (AccessDenied, StoreReadOnly):
                return False
            return True

    def examine(self) -> list[Finding]:
        return examined(self._database)

    def close(self) -> None:
        if not self._database.is_gone:
            try:
                self._database.close()
            finally:
                self._waiting.close()
                if self._index is not None:
                    self._index.close()

    def _guarded(self, work: Any, *, synced: bool = True) -> bool:
        """Whether the work succeeded; if it was refused, nothing of it is written."""
        try:
            self._database.write(work, synced=synced)
        except _Refused:
            return False
        self._waiting.wake_here()
        return True


def _must(connection: Connection, statement: LiteralString, values: Any) -> None:
    """Run a statement that changes one row, or refuse."""
    _refuse_if(connection.execute(statement, values).rowcount != 1)


def _found(connection: Connection, statement: LiteralString, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The one existing row, or refuse."""
    row: tuple[Any, ...] | None = connection.execute(statement, values, binary=True).fetchone()
    if row is None:
        raise _Refused
    return row


def _refuse_if(refused: bool) -> None:
    if refused:
        raise _Refused


def _tell_of_letter(connection: Connection, space: str) -> None:
    if space.startswith(_INBOX):
        connection.execute(sql.NOTIFY, (space.removeprefix(_INBOX),))


def _kept(event: Event) -> Event:
    return event._replace(name=escaped(event.name), key=escaped(event.key))
