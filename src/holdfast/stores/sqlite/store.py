"""The port's methods over one SQLite file.

It knows the statements and the rows; ``database`` has the connections, locks and errors, ``append`` the hot
path. The invariant: every method is one transaction, and what it calls durable is so on return.
"""

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import apsw
from orjson import dumps

from holdfast import limits
from holdfast.errors import Corrupt, StoreError, StoreReadOnly
from holdfast.model.events import Event, events_of
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
from holdfast.stores import bounds, row_checksums
from holdfast.stores.row_checksums import as_bytes, as_text, judged_row, raw_run_row
from holdfast.stores.sqlite import statements as sql
from holdfast.stores.sqlite.append import Appender, keep_blobs, missing
from holdfast.stores.sqlite.checked_rows import deleted, find_record, find_row, raise_fences, stored_fences
from holdfast.stores.sqlite.create import ensure_store
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.errors import translated, translated_os
from holdfast.stores.sqlite.file_owner import log_owner, other_owner
from holdfast.stores.sqlite.locks.owners import hold, let_go
from holdfast.stores.sqlite.locks.reread import reread

if TYPE_CHECKING:
    from holdfast.stores.sqlite.search.index import SqliteIndex

_QUOTED: Final = str.maketrans({"%": "%25", "?": "%3F", "#": "%23"})  # the rest is for people to read


class SqliteStore:
    """A store in one file on a local disk; created if it does not exist. Implements ``StorePort``."""

    is_sealed: bool = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Final = os.path.realpath(path)
        try:
            ensure_store(self.path)
            self._owners: Final = hold(self.path)
            self._owners.note_brought(log_owner(self.path))
            self._database: Final = self._open()
        except apsw.Error as error:
            raise translated(error, self.path) from error
        except OSError as error:
            raise translated_os(error, self.path) from error
        self._appender: Final = Appender(self._database)
        self._index: SqliteIndex | None = None
        self._indexing: Final = threading.Lock()

    def _open(self) -> Database:
        try:
            return Database(self.path, self._owners)
        except BaseException:
            let_go(self._owners, keeps_its_byte=False)
            raise

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path.translate(_QUOTED)}"

    @property
    def owner(self) -> str:
        return self._owners.name

    @property
    def owned_by(self) -> str | None:
        self._database.check_usable()
        return other_owner(self.path, brought_by=self._owners.brought_by)

    @property
    def is_open(self) -> bool:
        """Whether this handle can still be used in this process."""
        return not self._database.is_gone

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow, *, origin_revision: int = 0, synced: bool = True) -> bool:
        bounds.check_run_body(row.run, row.body)
        sums = (row_checksums.run_crc(row), row_checksums.status_crc(row.run, row.status))
        with self._database.write(synced=synced) as connection:
            stored_fences(connection, self.url)  # what it begins with, if that is to be believed
            number = self._database.heads.free_number(connection)
            connection.execute(
                sql.CREATE_RUN, (*row[:7], origin_revision, row.agent, row.due_at, *sums, number)
            )
            created = connection.changes() == 1
            if created:
                self._database.heads.check_new(row.run, self.url)
            if created and row.origin is not None:
                connection.execute(sql.BUMP_REVISION, (row.origin,))
            return created

    @reread
    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        with self._database.read() as connection:
            found = find_row(connection, run, self.url)
        return found if found is None or damaged else row_checksums.sound(found, self.url)

    @reread
    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        bounds.check_page("runs", limit, limits.RUN_PAGE_MAX)
        bindings: tuple[Any, ...] = (prefix, sql.after_prefix(prefix), limit)
        with self._database.read() as connection:
            statement, raw = sql.LIST_RUNS, sql.LIST_RAW_RUNS
            if before is not None:
                statement, raw = sql.LIST_RUNS_BEFORE, sql.LIST_RAW_RUNS_BEFORE
                bindings = (*bindings, before.created_at, as_bytes(before.run))
            if bindings[1] is not None:
                statement, raw = sql.under_prefix(statement), sql.under_prefix(raw)
            try:
                rows = _rows(connection.execute(statement, bindings))
            except UnicodeDecodeError:  # some row has invalid text
                return [raw_run_row(row) for row in connection.execute(raw, bindings)]
            return [judged_row(row) for row in rows]

    @reread
    def list_forks(self, run: str, *, after: str = "", limit: int) -> list[RunRow]:
        bounds.check_page("forks", limit, limits.RUN_PAGE_MAX)
        with self._database.read() as connection:
            return [judged_row(row) for row in _rows(connection.execute(sql.LIST_FORKS, (run, after, limit)))]

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        bounds.check_run_body(run, body)
        with self._database.write(synced=True) as connection:
            found = find_row(connection, run, self.url)
            if found is None or found.revision != revision:
                return False
            crc = row_checksums.run_crc(row_checksums.sound(found, self.url)._replace(body=body))
            of_status = row_checksums.status_crc(run, status)
            connection.execute(sql.SWAP_RUN, (status, of_status, body, crc, run, revision))
            return connection.changes() == 1

    def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
        bounds.check_removals(removals)
        with self._database.write(synced=True) as connection:
            return deleted(connection, self._database.heads, removals, self.url)

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        alone = self._appender.append_alone(items[0]) if len(items) == 1 else None
        return alone or self._appender.append(items)

    @reread
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
        values = (run, after_seq, limits.SEQ_MAX if upto_seq is None else upto_seq, limit)
        with self._database.read() as connection:
            if not kinds:
                return events_of(connection.execute(sql.READ_EVENTS, values))
            named = dumps([*kinds]).decode()
            return events_of(connection.execute(sql.READ_KINDS, (*values, named, skip)))

    @reread
    def count_kinds(self, run: str, *, after_seq: int = 0, upto_seq: int = limits.SEQ_MAX) -> dict[str, int]:
        with self._database.read() as connection:
            return dict(_rows(connection.execute(sql.COUNT_KINDS, (run, after_seq, upto_seq))))

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
        with self._database.write(synced=True) as connection:
            number = connection.execute(sql.FIND_GUARDED, (run, fence, revision)).get
            if number is None or missing(connection, blobs):
                return False
            ((origin_seq, head),) = _rows(connection.execute(sql.STRETCH, (number,)))
            assert origin_seq <= after_seq < upto_seq <= head, (
                f"run {run} has no stretch ({after_seq}, {upto_seq}]"
            )
            connection.execute(sql.DELETE_STRETCH, (number, after_seq, upto_seq))
            for event in events:
                connection.execute(sql.PUT_EVENT, (*event, number))
            keep_blobs(connection, blobs, max(at, events[-1].at))
            connection.execute(sql.BUMP_REVISION, (run,))
            return True

    def adopt_events(self, run: str, *, of: str, fence: int, revision: int) -> bool:
        with self._database.write(synced=True) as connection:
            row, taken = (find_row(connection, name, self.url) for name in (run, of))
            number = connection.execute(sql.FIND_GUARDED, (run, fence, revision)).get
            adopted = _rows(connection.execute(sql.FIND_ADOPTED, (of,)))
            if number is None or row is None or taken is None or not adopted:
                return False
            ((other, other_fence),) = adopted
            row, taken = row_checksums.sound(row, self.url), row_checksums.sound(taken, self.url)
            assert taken.head == row.head, f"{run} ends at {row.head} and {of} at {taken.head}"
            crc = row_checksums.run_crc(row_checksums.adopted(row, taken))
            sums = (crc, row_checksums.status_crc(run, row.status))
            connection.execute(sql.DELETE_EVENTS, (number,))
            connection.execute(sql.FORGET_RUN, (number,))
            kept = (row.run, row.birth, row.created_at, row.status, row.body, row.revision, *row.lease)
            connection.execute(sql.TAKE_PLACE, (*kept, row.agent, row.due_at, *sums, other))
            self._database.heads.clear([(number, run), (other, of)])
            self._database.heads.learn(run, other, row.birth)
            connection.execute(sql.DELETE_SPACE, (inbox_space(of),))
            raise_fences(connection, other_fence + 1, self.url)
            return True

    @reread
    def measure(self, run: str) -> RunSize:
        with self._database.read() as connection:
            return RunSize(*_rows(connection.execute(sql.MEASURE, (run,)))[0])

    def note_call(self, run: str, content: bytes, *, fence: int, after_seq: int) -> None:
        self._database.heads.note_call(run, content, fence, after_seq)

    @reread
    def find_call_note(self, run: str) -> CallNote | None:
        with self._database.read() as connection:
            return self._database.heads.find_call_note(connection, run)

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        bounds.check_blobs(blobs)
        with self._database.write(synced=True) as connection:
            for address, data in blobs:
                assert data is not None, f"blob {address} is put without content"
                connection.execute(sql.PUT_BLOB, (address, at, data))

    @reread
    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        with self._database.read() as connection:
            rows = [(one, connection.execute(sql.GET_BLOB, (one,)).fetchone()) for one in addresses]
        return {address: row[0] for address, row in rows if row is not None}

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        deleted = 0
        # Flushed is enough: the next prune repeats a deletion that power loss undoes.
        with self._database.write(synced=False) as connection:
            for address in addresses:
                connection.execute(sql.DELETE_BLOB, (address, untouched_since))
                deleted += connection.changes()
            if deleted:
                connection.execute(sql.SHRINK).fetchall()
        return deleted

    @reread
    def scan_blobs(self, *, after: str = "", limit: int) -> list[BlobInfo]:
        bounds.check_page("blobs", limit, limits.BLOB_PAGE_MAX)
        with self._database.read() as connection:
            return list(map(BlobInfo._make, connection.execute(sql.SCAN_BLOBS, (after, limit))))

    def blob_name(self, address: str) -> str:
        return address

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        self._database.check_in_place()
        fence, beat = (over.fence, over.beat) if over is not None else (-1, -1)
        # Flushed is enough: what a power cut takes back, it takes from a holder that is dead, too.
        with self._database.write(synced=False) as connection:
            connection.execute(sql.TAKE_LEASE, (self.owner, at, lease_s, run, fence, beat, above))
            granted = connection.changes() == 1
            if granted and (row := self._database.heads.checked(connection, run, self.url)) is not None:
                return Grant(True, row.lease, row)
            found = connection.execute(sql.GET_LEASE, (run,)).fetchone()
        return Grant(granted, Lease() if found is None else Lease(*found))

    @reread
    def accept_loss(self, run: str) -> int:
        with self._database.read() as connection:
            return self._database.heads.accept_loss(connection, run)

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        self._database.check_in_place()
        lost: list[str] = []
        with self._database.write(synced=False) as connection:
            for run, fence in fences.items():
                connection.execute(sql.BEAT, (at, run, fence))
                if not connection.changes():
                    lost.append(run)
        return frozenset(lost)

    def release(self, run: str, *, fence: int) -> bool:
        with self._database.write(synced=False) as connection:
            connection.execute(sql.RELEASE, (run, fence))
            return connection.changes() == 1

    def probe(self, owner: str) -> Liveness:
        self._database.check_usable()
        return self._owners.probe(owner)

    # -- the queue -------------------------------------------------------------------------------------------

    @reread
    def claim(self, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
        bounds.check_claim(agents, limit)
        self._database.check_in_place()
        bindings = (dumps([*agents]).decode(), at, limit)
        with self._database.read() as connection:  # usually there is nothing to do, which needs no lock
            if not _rows(connection.execute(sql.CLAIMABLE, bindings)):
                return []
        with self._database.write(synced=True) as connection:
            due = [raw_run_row(row) for row in _rows(connection.execute(sql.CLAIMABLE, bindings))]
            found = [
                row
                for row in row_checksums.undamaged(due, self.url)
                if self._database.heads.is_whole(connection, row.run, self.url)
            ]
            for row in found:
                connection.execute(sql.TAKE_LEASE, (self.owner, at, lease_s, row.run, -1, -1, 0))
            for row in due:  # no worker can run it, and it would block the others
                if row not in found:
                    connection.execute(sql.NOT_DUE, (as_bytes(row.run),))
        return [
            row._replace(lease=Lease(row.lease.fence + 1, self.owner, 0, at, at, lease_s)) for row in found
        ]

    @reread
    def list_held(self, agents: Sequence[str], *, after: str = "", limit: int) -> list[RunRow]:
        bounds.check_claim(agents, limit)
        with self._database.read() as connection:
            rows = connection.execute(sql.LIST_HELD, (dumps([*agents]).decode(), after, limit))
            return [raw_run_row(row) for row in rows]

    def set_due(self, run: str, *, fence: int, due_at: float | None) -> bool:
        with self._database.write(synced=True) as connection:
            connection.execute(sql.SET_DUE, (due_at, run, fence))
            return connection.changes() == 1

    def call_up(self, run: str, *, at: float) -> bool:
        with self._database.write(synced=True) as connection:
            connection.execute(sql.CALL_UP, (at, run))
            return connection.changes() == 1

    # -- records ---------------------------------------------------------------------------------------------

    @reread
    def get_record(self, space: str, key: str) -> Record | None:
        with self._database.read() as connection:
            return find_record(connection, space, key, self.url)

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        bounds.check_record(space, key, body)
        with self._database.write(synced=synced) as connection:
            crc = row_checksums.record_crc(space, key, revision + 1, body)
            if revision:
                connection.execute(sql.SWAP_RECORD, (body, crc, space, key, revision))
                return connection.changes() == 1
            connection.execute(sql.ADD_RECORD, (space, key, body, crc))
            if not connection.changes():
                try:
                    find_record(connection, space, key, self.url)
                except Corrupt:
                    connection.execute(sql.REPLACE_RECORD, (body, crc, space, key))
                else:
                    return False
            return True

    @reread
    def scan_records(
        self, space: str, *, after: str = "", prefix: str = "", limit: int, damaged: bool = False
    ) -> list[Record]:
        bounds.check_page("records", limit, limits.RECORD_PAGE_MAX)

        def page(behind: str, count: int) -> list[Record]:
            bindings = (space, as_bytes(behind), prefix, sql.after_prefix(prefix), count)
            rows = _rows(connection.execute(sql.SCAN_RECORDS, bindings))
            return [
                row_checksums.judged_record(Record(space, as_text(row[0]), *row[1:3]), row[3]) for row in rows
            ]

        with self._database.read() as connection:
            return row_checksums.scanned(page, after, limit, self.url, damaged=damaged)

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        with self._database.write(synced=True) as connection:
            connection.execute(sql.DELETE_RECORD, (space, key, revision))
            return connection.changes() == 1

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        from holdfast.stores.sqlite.wait import wait_for_change

        changed = wait_for_change(self._database, cursors, timeout_s=timeout_s)
        if not changed:  # a file that was deleted never changes, and can still be read
            self._database.check_in_place()
        return changed

    def sync(self) -> None:
        self._database.sync()

    def reclaim(self, *, thoroughly: bool = False) -> int:
        from holdfast.stores.sqlite.reclaim import reclaimed, reclaimed_index

        of_index = reclaimed_index(self, thoroughly=thoroughly)
        return of_index + reclaimed(self._database, thoroughly=thoroughly)

    def find_index(self, *, makes: bool = True) -> "SqliteIndex | None":
        from holdfast.stores.sqlite.search.index import find_index, index_path

        with self._indexing:
            if not makes and not os.path.exists(index_path(self.path)):
                return None
            if self._index is None or not self._index.is_open:
                self._database.check_usable()
                self._index = find_index(self.path, self._owners, makes=makes)
            return self._index

    def drop_index(self, *, because: StoreError | None = None) -> bool:
        from holdfast.stores.sqlite.search.index import throw_away

        with self._indexing:
            if isinstance(because, StoreReadOnly):  # another process may be able to write it
                return False
            lost, self._index = self._index, None
            thrown = throw_away(self.path, self._owners, lost, is_damaged=because is not None)
            if lost is not None:
                with suppress(StoreError):  # what it could not write is not needed any more
                    lost.close()
            return thrown

    def examine(self) -> list[Finding]:
        from holdfast.stores.sqlite.repair.doctor import examined

        return examined(self._database)

    @reread
    def close(self) -> None:
        if self._database.is_gone:
            return
        with self._database.read() as connection:
            holds = connection.execute(sql.HOLDS_A_RUN, (self.owner,)).fetchone() is not None
        if self._index is not None:
            self._index.close()
        self._database.close()
        # A process that still holds a run may still act for it: it must not look dead while it lives.
        let_go(self._owners, keeps_its_byte=holds)


def _rows(cursor: apsw.Cursor) -> list[Any]:
    """All of them at once, so that no statement stays open. The schema decides their types."""
    return list(cursor)
