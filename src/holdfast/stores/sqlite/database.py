"""The three connections of one open database, and who may use them when.

``synced`` commits with an fsync, ``flushed`` without, ``reading`` never waits for either. One lock lets a
single thread write at a time, the turn a single process; SQLite's busy timeout waits for a foreign program.
There is one WAL, so a later synced commit makes earlier flushed ones durable, in order; ``dirty`` tracks it.

The invariant: ``trouble`` is empty exactly while the next write may go straight ahead. Everything that could
make a write lie (closed, forked, a deleted WAL, an open transaction, a failed fsync) sets it first. A write
is acknowledged only if SQLite's locks held. A read returns only if the file held still.
"""

import atexit
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Condition
from typing import Final, Literal, NoReturn, ParamSpec, TypeVar

import apsw

from holdfast import limits
from holdfast.errors import ForkedHandle, HandleClosed, NotDurable, StoreBusy, StoreError, StoreUnavailable
from holdfast.stores import own_files
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.acknowledged_heads import Heads
from holdfast.stores.sqlite.connection import STORE, Shape, bring_to_wal, open_connection
from holdfast.stores.sqlite.errors import error_code, translated, translated_os, undecodable
from holdfast.stores.sqlite.file_system import check_in_place
from holdfast.stores.sqlite.locks import file_locks
from holdfast.stores.sqlite.locks.file_locks import LOST, locks_of
from holdfast.stores.sqlite.locks.guard import Guard, header_of
from holdfast.stores.sqlite.locks.inherited_connections import make_immortal
from holdfast.stores.sqlite.locks.owners import Owners
from holdfast.stores.sqlite.locks.reread import LOOKS_MAX, LostWhileReading
from holdfast.stores.sqlite.migrate import is_old, migrate, show_as_is, show_as_new
from holdfast.stores.sqlite.repair.rewrite_wal import checkpoint, rewrite_folded, rewrite_wal, wal_size

P = ParamSpec("P")
T = TypeVar("T")
Trouble = Literal["", "closed", "forked", "cut off", "open", "failed", "old"]

_FOLD_PAGES: Final = 1_000
"""How long a WAL gets before it is folded into the file, in pages."""
_TORN: Final = (apsw.SQLITE_BUSY_RECOVERY, apsw.SQLITE_PROTOCOL)
_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError)
_WAL_DELETED: Final = "its -wal file was deleted while this process had it open"
_UNKNOWN: Final = f"{LOST}; it is not known whether this was written"


class Database:
    """Connections, locks and the state between them. Internal to the package: verbs live in ``store``."""

    def __init__(self, path: str, owners: Owners, shape: Shape = STORE) -> None:
        self.path: Final = path
        self.name: Final = path
        self.shape: Final = shape
        self.trouble: Trouble = ""
        self.dirty = False
        self.waiters = 0
        self.moved = Condition()
        self.wal_pages = 0
        self.fold_at = _FOLD_PAGES
        self.opened_by: Final = os.getpid()
        self._is_old = self._reads_old = False
        """Whether the file may be of an earlier format: then the first write brings it to this one."""
        self._owners: Final = owners
        self.heads: Final = Heads(owners, path)
        with file_locks.opening:
            self.locks: Final = locks_of(path, owners, of_search=shape is not STORE)
            self.writing, self.looking = self.locks.writing, self.locks.looking
            with self.writing:
                try:
                    self.locks.begin_turn()
                    self.guard: Final = self._open()
                finally:
                    self._end_turn(self.locks.guard)
        own_files.note(path)
        _opened.add(self)

    @property
    def is_gone(self) -> bool:
        """Whether this handle is closed, cut off, or belongs to the parent of this process."""
        return self.trouble in ("closed", "forked", "cut off")

    # -- writing ---------------------------------------------------------------------------------------------

    def begin_turn(self, *, writes: bool = True) -> None:
        """Make writing safe and keep all others out; the caller holds ``writing``, and always ends the turn.

        Who does not write does not bring an old store to this format.
        """
        self.check_usable()
        try:
            self.locks.begin_turn()
            self.guard.prevent_recovery()
            if self.trouble and (writes or self.trouble != "old"):
                self._mend()
        except OSError as error:
            raise translated_os(error, self.path) from error

    def note_commit(self, *, synced: bool) -> None:
        """Something was committed and confirmed; the caller has the turn."""
        if synced:
            self.dirty = False
        if self.waiters:
            with self.moved:
                self.moved.notify_all()
        if self.wal_pages >= self.fold_at:
            self.fold(apsw.SQLITE_CHECKPOINT_PASSIVE)

    def confirm(self, connection: apsw.Connection) -> None:
        """Right behind a commit: raise unless it is in a file that can be found again.

        That is, SQLite's locks kept foreign writers out until it was made, and the WAL was not deleted.
        """
        if self.guard.is_lost:
            self._settle(connection)
        if self.guard.is_wal_deleted:
            self._rescue()

    def _rescue(self) -> NoReturn:
        """The WAL was deleted under us: bring what it holds into the file, and use this handle no more.

        Not if ``-shm`` is gone, too, or there is a new WAL: another process may have gone on without us.
        """
        if not self.guard.is_index_deleted and not wal_size(self.path):
            self.fold(apsw.SQLITE_CHECKPOINT_PASSIVE)
        self.trouble = "cut off"
        self._refuse()

    def _settle(self, connection: apsw.Connection) -> None:
        """The locks were lost, perhaps while we wrote. No process of ours wrote since: we have the turn.

        Wait for a foreign writer that has begun. If none has committed by then, the file is as we left it.
        """
        try:
            for _ in range(LOOKS_MAX):
                version = connection.data_version()
                self.guard.mark()
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
                if connection.data_version() != version:
                    break
                if not self.guard.is_lost:
                    return
        except (apsw.Error, OSError) as error:
            raise StoreUnavailable(store=self.name, problem=f"{_UNKNOWN} ({error})") from error
        raise StoreUnavailable(store=self.name, problem=_UNKNOWN)

    def _end_turn(self, guard: Guard | None) -> None:
        try:
            self.locks.end_turn()
            if guard is not None:
                guard.allow_recovery()
        except OSError as error:
            self.locks.end_turn_late(error)

    @contextmanager
    def transaction(
        self, *, synced: bool, then: Callable[[], None] | None = None
    ) -> Iterator[apsw.Connection]:
        """One transaction, committed at the end and undone by any exception; the caller holds ``writing``.

        ``then`` is called behind the commit, while no other process can write.
        """
        try:
            self.begin_turn()
            connection = self.synced if synced else self.flushed
            before = connection.total_changes()
            self.trouble = "open"
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                if not synced:
                    self.dirty = True  # before it is: an interrupt may fall right behind the commit
                connection.execute("COMMIT")
            except BaseException as error:
                self.undo(connection, error)
                if isinstance(error, apsw.Error):
                    raise self.translate(error, connection) from error
                raise
            self.trouble = ""
            self.confirm(connection)
            if then is not None:
                then()
            if connection.total_changes() != before:  # an empty commit writes nothing, so it syncs nothing
                self.note_commit(synced=synced)
        finally:
            self._end_turn(self.guard)

    def undo(self, connection: apsw.Connection, error: BaseException) -> None:
        """Roll back; after this ``trouble`` is right whether or not that worked."""
        if self.trouble == "forked":
            return  # the exception unwinds a child: the transaction is its parent's, which continues it
        if connection.in_transaction:  # some errors make SQLite roll back by itself
            try:
                connection.execute("ROLLBACK")
            except apsw.Error as second:
                error.add_note(f"and the rollback said: {second}")
                self.trouble = "open"
                return
        self.trouble = ""

    @contextmanager
    def write(self, *, synced: bool, then: Callable[[], None] | None = None) -> Iterator[apsw.Connection]:
        """One transaction, alone among this process's threads."""
        with self.writing, self.transaction(synced=synced, then=then) as connection:
            yield connection

    def sync(self) -> None:
        """Make what was flushed survive power loss; nothing is written when nothing was flushed."""
        if self.dirty or self.trouble not in ("", "old"):
            with self.write(synced=True) as connection:
                if self.dirty:
                    connection.execute(statements.BUMP)

    # -- reading ---------------------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """The reading connection, alone among threads; only inside what is ``reread``."""
        with self.looking:
            self.check_usable()
            stamp = self._stamp()
            try:
                if self._reads_old and not is_old(self.reading, self.shape):
                    show_as_is(self.reading)
                    self._reads_old = False
                yield self.reading
            except (apsw.Error, UnicodeDecodeError, StoreError) as error:
                # Damage, it may be, that is none.
                if self._stamp() != stamp:
                    raise LostWhileReading(self.name) from error
                if isinstance(error, apsw.Error):
                    raise translated(error, self.path, system_errno=self.reading.system_errno) from error
                if isinstance(error, UnicodeDecodeError):
                    raise undecodable(error, self.path) from error
                raise
            if self._stamp() != stamp:
                raise LostWhileReading(self.name)

    def _stamp(self) -> bytes:
        try:
            return self.guard.stamp()
        except OSError as error:
            raise translated_os(error, self.path) from error

    def check_usable(self) -> None:
        """Refuse where this handle is closed, or another process's."""
        if self.is_gone:
            self._refuse()

    @contextmanager
    def alone(self, *, writes: bool = True) -> Iterator[None]:
        """A turn, for whatever is no transaction of ours."""
        with self.writing:
            try:
                self.begin_turn(writes=writes)
                yield
            finally:
                self._end_turn(self.guard)

    @contextmanager
    def long_look(self) -> Iterator[apsw.Connection]:
        """A reading connection of one's own, for what takes long. May raise apsw.Error."""
        with self.alone(writes=False):
            connection = open_connection(self.path, "reading", self.shape)
            self.guard.share()
        try:
            if is_old(connection, self.shape):
                show_as_new(connection)
            yield connection
        finally:
            connection.close()
            self.guard.let_go()

    def check_in_place(self) -> None:
        """Refuse if the file was deleted or replaced: SQLite would write to one that none can open again."""
        check_in_place(self.path, self._inode)

    # -- folding the WAL -------------------------------------------------------------------------------------

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def fold(self, mode: int) -> None:
        """Fold what can be without waiting. What is committed stays so. SQLite would hide what fails."""
        self.synced.set_busy_timeout(0)
        try:
            pages, folded = checkpoint(self.synced, self.path, mode)
            # A reader makes the rest wait: not until the next commit, but until there is as much again.
            self.fold_at = _FOLD_PAGES if folded >= pages else pages + _FOLD_PAGES
        except apsw.Error as error:
            self.fold_at = self.wal_pages + _FOLD_PAGES
            self._note_failure(error)
        finally:
            self.synced.set_busy_timeout(int(limits.BUSY_TIMEOUT_S * 1000))

    def unfolded_pages(self) -> int:
        """How many pages of the WAL are not in the file yet."""
        with self.alone(writes=False):
            try:
                pages, folded = self.synced.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)
            except apsw.Error as error:
                raise self.translate(error, self.synced) from error
        return max(0, pages - folded)

    def fold_at_end(self) -> None:
        """Fold what this process left in the WAL, if no process is in the way: then it takes no space twice.

        Nothing depends on it, so nothing is waited for and nothing is raised.
        """
        if self.trouble or not any(c.total_changes() for c in (self.synced, self.flushed)):
            return
        if self.writing.acquire(blocking=False):
            try:
                if self.locks.turn.try_lock() and self.guard.prevents_recovery():
                    self.fold(apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except OSError:  # it stays, and the next process that opens the store reads it there
                pass
            finally:
                self._end_turn(self.guard)
                self.writing.release()

    # -- when something went wrong ---------------------------------------------------------------------------

    def translate(self, error: apsw.Error, connection: apsw.Connection) -> StoreError:
        """The error to raise after a failed write; an I/O failure makes the WAL suspect."""
        if isinstance(error, _DAMAGE) and self.guard.is_lost:  # it may be what others did meanwhile
            self.guard.mark()
            return StoreUnavailable(store=self.name, problem=f"{_UNKNOWN} ({error})").because(error)
        if error_code(error) in _TORN:
            # A process has died while it changed -shm. None could mend that while we were about to write.
            self.guard.allow_recovery()
            with suppress(apsw.Error):
                connection.pragma("schema_version")
        self._note_failure(error)
        return translated(error, self.path, system_errno=connection.system_errno)

    def close(self) -> None:
        """Sync what was flushed, then let go of the connections; idempotent."""
        if self.trouble in ("closed", "forked"):
            return
        try:
            if self.trouble != "cut off":
                self.sync()
                self.fold_at_end()
        except NotDurable:
            if os.path.exists(self.path):  # else the whole store was deleted
                raise
        finally:
            with file_locks.opening, self.writing, self.looking:
                if self.trouble not in ("closed", "forked"):  # else another thread was faster
                    self.trouble = "closed"
                    for connection in (self.reading, self.flushed, self.synced):
                        connection.close()
                    self.locks.leave()
                    own_files.forget(self.path)
            with self.moved:
                self.moved.notify_all()

    def _note_failure(self, error: apsw.Error) -> None:
        """After a failed sync the next to write or open the store, we or another, writes the WAL again."""
        if isinstance(error, apsw.IOError):
            self.trouble = "failed"
            self._owners.suspect(is_so=True)

    def _trust_wal(self, guard: Guard) -> None:
        """Who opens it first, or finds it suspect, writes the WAL again before anything is built on it.

        It may have been left by a process that died before it could say that a sync had failed. Then it is
        folded, so that the next one finds nothing to do.
        """
        if (self._owners.is_suspect or self._owners.is_alone) and wal_size(self.path):
            self._heal(guard)
            self.fold(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _mend(self) -> None:
        """Make writing safe again, or raise; the caller has the turn."""
        for connection in (self.synced, self.flushed):
            if connection.in_transaction:  # an asynchronous exception fell between BEGIN and its handler
                connection.execute("ROLLBACK")
        if self.trouble == "failed":
            self._heal(self.guard)
        if self._is_old:
            self._migrate()
        self.trouble = ""

    def _heal(self, guard: Guard) -> None:
        """Before anything is acknowledged again, bring to the disk what a failed sync may have lost."""
        try:
            self.synced.execute("BEGIN IMMEDIATE")
            try:
                rewrite_wal(self.path)
                with guard.no_checkpoint():
                    rewrite_folded(self.path)
            finally:
                self.synced.execute("ROLLBACK")
        except apsw.Error as error:
            raise translated(error, self.path, system_errno=self.synced.system_errno) from error
        self._owners.suspect(is_so=False)

    def _migrate(self) -> None:
        """Bring the store to this format; nothing is left to do where another process has done it."""
        try:
            self.synced.execute("BEGIN IMMEDIATE")
            try:
                if self._owners.is_older_alive():
                    problem = "an older Holdfast has it open, and would go on writing in its own format"
                    raise StoreBusy(
                        store=self.name, problem=problem, advice="end that process; then start again"
                    )
                migrate(self.synced)
                self.synced.execute("COMMIT")
            finally:
                if self.synced.in_transaction:
                    self.synced.execute("ROLLBACK")
        except apsw.Error as error:
            raise self.translate(error, self.synced) from error
        self._is_old = False

    def _refuse(self) -> NoReturn:
        if self.trouble == "cut off":
            advice = f"start again; `holdfast doctor --store {self.name}` says if something is missing"
            raise NotDurable(store=self.name, problem=_WAL_DELETED, advice=advice)
        if self.trouble == "forked":
            raise ForkedHandle(what=f"store {self.name}", opened_by=self.opened_by, used_by=os.getpid())
        raise HandleClosed(what=f"store {self.name}")

    # -- opening ---------------------------------------------------------------------------------------------

    def _open(self) -> Guard:
        """Open the connections behind the guard; the caller has the turn. apsw.Error, OSError, StoreError."""
        if not self.locks.members:
            bring_to_wal(self.path, header_of(self.path), self.shape)
        guard = self.locks.join()
        opened: list[apsw.Connection] = []
        try:
            for role in ("synced", "flushed", "reading"):  # in a loop: some may be open when one fails
                opened.append(open_connection(self.path, role, self.shape))  # noqa: PERF401
            for connection in opened[:2]:
                connection.set_wal_hook(self._note_wal)
                if self.shape is STORE:
                    connection.execute(statements.APPEND_PROGRAMS)
            guard.watch_wal()
            self._inode = os.stat(self.path).st_ino
            self.synced, self.flushed, self.reading = opened
            self._is_old = self._reads_old = is_old(self.synced, self.shape)
            if self._is_old:
                show_as_new(self.reading)
            self.trouble = "failed" if self._owners.is_suspect else "old" if self._is_old else ""
            guard.prevent_recovery()  # not earlier: the first connection may have had to do that
            self._trust_wal(guard)
        except BaseException:
            for connection in opened:
                connection.close()
            self.locks.leave()
            raise
        return guard

    # -- fork ------------------------------------------------------------------------------------------------

    def disown(self) -> None:
        """In a forked child: refuse from now on, and undo nothing of the parent's."""
        # Locks may be held by threads that do not exist here.
        self.moved = Condition()
        self.locks.make_locks()
        self.writing, self.looking = self.locks.writing, self.locks.looking
        if self.trouble == "closed":
            return
        self.trouble = "forked"
        connections = (self.synced, self.flushed, self.reading)
        if self.locks.is_quiet and not any(connection.in_transaction for connection in connections):
            for connection in connections:  # or SQLite would think that this process has the parent's locks
                connection.close()
        else:
            self.locks.refuse_from_now_on()
            make_immortal(connections)


_opened: weakref.WeakSet[Database] = weakref.WeakSet()


def _disown_after_fork() -> None:
    for database in tuple(_opened):
        database.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_after_fork)


@atexit.register
def _fold_at_exit() -> None:
    """Most programs never close their store: fold their WAL. Exit handlers may still record something."""
    for database in tuple(_opened):
        database.fold_at_end()
