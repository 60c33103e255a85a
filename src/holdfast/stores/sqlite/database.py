"""The three connections of one open database, and who may use them when.

``synced`` commits with an fsync, ``flushed`` without, ``reading`` never waits for either. One lock lets a
single thread write at a time, the turn a single process; SQLite's busy timeout waits for other programs.
There is one WAL, so a later synced commit makes earlier flushed ones durable, in order: ``dirty`` keeps track
of that.

The invariant: ``trouble`` is empty exactly while the next write may proceed. Everything that could make a
write lie (closed, forked, a transaction left open by an exception, a failed fsync) sets it first. Whether
SQLite's locks were lost is checked before every use, and again before anything is acknowledged or returned.
"""

import atexit
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from threading import Condition
from typing import Final, Literal, NoReturn, ParamSpec, TypeVar

import apsw

from holdfast import limits
from holdfast.errors import ForkedHandle, HandleClosed, StoreBusy, StoreError, StoreUnavailable
from holdfast.stores import own_files
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.acknowledged_heads import Heads
from holdfast.stores.sqlite.connection import STORE, Shape, open_connection
from holdfast.stores.sqlite.errors import translated, translated_os, undecodable
from holdfast.stores.sqlite.locks import file_locks
from holdfast.stores.sqlite.locks.file_locks import LOST, locks_of
from holdfast.stores.sqlite.locks.owners import Owners
from holdfast.stores.sqlite.migrate import is_old, migrate, show_as_is, show_as_new
from holdfast.stores.sqlite.repair.rewrite_wal import rewrite_wal, wal_size

P = ParamSpec("P")
T = TypeVar("T")
Trouble = Literal["", "closed", "forked", "open", "failed", "shut", "old"]

_CHECKPOINT_PAGES: Final = 1_000
"""The length of a WAL, in pages, at which it is checkpointed into the file."""
_LOOKS_MAX: Final = 50
_UNKNOWN: Final = f"{LOST}; it is not known whether this was written"


class LostWhileReading(Exception):
    """The locks were lost during a read: the result may be wrong, and is read again."""


def reread(verb: Callable[P, T]) -> Callable[P, T]:
    """A method that reads, and reads again if the locks were lost meanwhile. It writes nothing twice."""

    @wraps(verb)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        store = ""
        for _ in range(_LOOKS_MAX):
            try:
                return verb(*args, **kwargs)
            except LostWhileReading as lost:
                store = str(lost)
        raise StoreUnavailable(store=store, problem=f"{LOST}, again and again")

    return reading


class Database:
    """Connections, locks and the state between them. Internal to the package: ``store`` has the methods."""

    def __init__(self, path: Path, owners: Owners, shape: Shape = STORE) -> None:
        self.path: Final = path
        self.name: Final = str(path)
        self.shape: Final = shape
        self.trouble: Trouble = "shut"
        self.dirty = False
        self.waiters = 0
        self.moved = Condition()
        self.wal_pages = 0
        self.checkpoint_at = _CHECKPOINT_PAGES
        self.opened_by: Final = os.getpid()
        self._is_old = self._reads_old = False
        """Whether the file may have an earlier format: then the first write migrates it."""
        self._owners: Final = owners
        self.heads: Final = Heads(owners)
        with file_locks.opening:
            self.locks: Final = locks_of(path, owners, of_search=shape is not STORE)
            self.writing, self.looking = self.locks.writing, self.locks.looking
            with self.writing:
                try:
                    self.locks.begin_turn()
                    self.locks.join(self)
                    self._trust_wal()
                finally:
                    self.locks.end_turn()
        own_files.note(path)
        _opened.add(self)

    @property
    def is_gone(self) -> bool:
        """Whether this handle is closed, or belongs to the parent of this process."""
        return self.trouble in ("closed", "forked")

    # -- write -----------------------------------------------------------------------------------------------

    def begin_turn(self, *, writes: bool = True) -> None:
        """Make writing safe and keep other processes out.

        The caller holds ``writing`` and always ends the turn.

        Without ``writes``, an old store is not migrated.
        """
        self.check_usable()
        self.locks.begin_turn()
        if self.trouble == "shut" or self.locks.is_lost:
            self._take_back()
        if self.trouble and (writes or self.trouble != "old"):
            self._make_safe()

    def confirm(self) -> None:
        """Right after a commit: if the locks were lost meanwhile, its outcome is unknown."""
        if self.locks.is_lost:
            raise StoreUnavailable(store=self.name, problem=_UNKNOWN)

    @contextmanager
    def transaction(self, *, synced: bool) -> Iterator[apsw.Connection]:
        """One transaction, committed at the end and rolled back by any exception.

        The caller holds ``writing``.
        """
        try:
            self.begin_turn()
            connection = self.synced if synced else self.flushed
            before = connection.total_changes()
            # Set before BEGIN: an asynchronous exception may come right after it, and the next writer must
            # not join the open transaction.
            self.trouble = "open"
            try:
                # IMMEDIATE: a read that turns into a write fails with SQLITE_BUSY at once, without a timeout.
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                if not synced:
                    self.dirty = True  # before the commit: an interrupt may come right after it
                connection.execute("COMMIT")
            except BaseException as error:
                self._undo(connection, error)
                if isinstance(error, apsw.Error):
                    raise self.translate(error, connection) from error
                raise
            self.trouble = ""
            self.confirm()
            if connection.total_changes() != before:  # an empty commit writes nothing, so it syncs nothing
                if synced:
                    self.dirty = False
                self.wake()
                self.checkpoint_if_long()
        finally:
            self.locks.end_turn()

    @contextmanager
    def write(self, *, synced: bool) -> Iterator[apsw.Connection]:
        """One transaction, exclusive among this process's threads."""
        with self.writing, self.transaction(synced=synced) as connection:
            yield connection

    def sync(self) -> None:
        """Make flushed commits survive power loss; writes nothing if nothing was flushed."""
        if self.dirty or self.trouble not in ("", "old"):
            with self.write(synced=True) as connection:
                if self.dirty:
                    # An empty commit writes nothing and so syncs nothing: change a row.
                    connection.execute(statements.BUMP)

    def wake(self) -> None:
        """Wake this process's waiters after a commit."""
        if self.waiters:
            with self.moved:
                self.moved.notify_all()

    # -- read ------------------------------------------------------------------------------------------------

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """The reading connection, exclusive among this process's threads; only inside a ``reread`` method."""
        if self.trouble == "shut" or self.locks.is_lost:
            with self.alone(writes=False):
                pass  # beginning a turn has taken the locks back
        with self.looking:
            self.check_usable()
            try:
                if self._reads_old and not is_old(self.reading, self.shape):
                    show_as_is(self.reading)
                    self._reads_old = False
                yield self.reading
            except apsw.Error as error:
                if self.locks.is_lost:
                    raise LostWhileReading(self.name) from error
                raise translated(error, self.path, system_errno=self.reading.system_errno) from error
            except UnicodeDecodeError as error:
                if self.locks.is_lost:
                    raise LostWhileReading(self.name) from error
                raise undecodable(error, self.path) from error
            except StoreError as error:  # a row that fails its checksum
                if self.locks.is_lost:
                    raise LostWhileReading(self.name) from error
                raise
            # Once more after the read: without locks, another process may have written in between, and the
            # rows may mix two states.
            if self.locks.is_lost:
                raise LostWhileReading(self.name)

    def check_usable(self) -> None:
        """Refuse if this handle is closed, or belongs to another process."""
        if self.is_gone:
            self._refuse()

    @contextmanager
    def alone(self, *, writes: bool = True) -> Iterator[None]:
        """A turn, for work that is not one of our transactions."""
        with self.writing:
            try:
                self.begin_turn(writes=writes)
                yield
            finally:
                self.locks.end_turn()

    @contextmanager
    def separate_reader(self) -> Iterator[apsw.Connection]:
        """A separate reading connection, for long work. May raise apsw.Error."""
        with self.alone(writes=False):
            connection = open_connection(self.path, "reading", self.shape)
            self.locks.lookers += 1
            if is_old(connection, self.shape):
                show_as_new(connection)
        try:
            yield connection
        finally:
            connection.close()
            with self.locks.looked:
                self.locks.lookers -= 1
                self.locks.looked.notify_all()

    def check_in_place(self) -> None:
        """Refuse if the file was deleted or replaced: SQLite would keep writing to a file without a name."""
        try:
            if self.path.stat().st_ino == self._inode:
                return
        except FileNotFoundError:
            pass
        raise StoreUnavailable(store=self.name, problem="the file was moved or deleted while it was open")

    # -- checkpoints of the WAL ------------------------------------------------------------------------------

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.wal_pages = pages
        return apsw.SQLITE_OK

    def checkpoint_if_long(self) -> None:
        """Checkpoint the WAL into the file, once it is long; the caller has the turn.

        SQLite would do that by itself, and hide the errors.
        """
        if self.wal_pages >= self.checkpoint_at:
            self.checkpoint(apsw.SQLITE_CHECKPOINT_PASSIVE)

    def checkpoint(self, mode: int) -> None:
        """Checkpoint as much as possible without waiting. Commits stay committed, whatever happens here."""
        # No waiting for readers: this process has the turn, and all other writers wait for it.
        self.synced.set_busy_timeout(0)
        try:
            pages, done = self.synced.wal_checkpoint("main", mode)
            # With an active reader the rest has to wait: not until the next commit, but until there is as
            # much again.
            self.checkpoint_at = _CHECKPOINT_PAGES if done >= pages else pages + _CHECKPOINT_PAGES
        except apsw.Error as error:
            self.checkpoint_at = self.wal_pages + _CHECKPOINT_PAGES
            self._note_failure(error)
        finally:
            self.synced.set_busy_timeout(int(limits.BUSY_TIMEOUT_S * 1000))

    def pages_to_checkpoint(self) -> int:
        """How many pages of the WAL are not in the file yet."""
        with self.alone(writes=False):
            try:
                pages, done = self.synced.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_NOOP)
            except apsw.Error as error:
                raise self.translate(error, self.synced) from error
        return max(0, pages - done)

    def checkpoint_at_end(self) -> None:
        """Checkpoint what this process left in the WAL, if nothing blocks it, to save space.

        Nothing depends on it, so it waits for nothing and raises nothing.
        """
        if self.trouble or not any(c.total_changes() for c in (self.synced, self.flushed)):
            return
        if self.writing.acquire(blocking=False):
            try:
                if self.locks.turn.try_lock() and not self.locks.is_lost:
                    self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except OSError:  # it stays in the WAL, where the next process reads it
                pass
            finally:
                self.locks.end_turn()
                self.writing.release()

    # -- errors ----------------------------------------------------------------------------------------------

    def translate(self, error: apsw.Error, connection: apsw.Connection) -> StoreError:
        """The error to raise after a failed write; an I/O failure makes the WAL suspect."""
        if self.locks.is_lost:  # then it is not damage: other processes wrote without our locks
            return StoreUnavailable(store=self.name, problem=f"{_UNKNOWN} ({error})").because(error)
        self._note_failure(error)
        return translated(error, self.path, system_errno=connection.system_errno)

    def close(self) -> None:
        """Sync what was flushed, then release the connections; idempotent."""
        if self.is_gone:
            return
        try:
            self.sync()
            self.checkpoint_at_end()
        finally:
            # All three: another thread may be in the middle of a read or a write on these connections.
            with file_locks.opening, self.writing, self.looking:
                self.locks.leave(self)
                self.trouble = "closed"
                own_files.forget(self.path)
            with self.moved:
                self.moved.notify_all()

    def _note_failure(self, error: apsw.Error) -> None:
        """After a failed sync the WAL is rewritten.

        By us before the next write, else by the next process that opens it.
        """
        if isinstance(error, apsw.IOError):
            self.trouble = "failed"
            self._owners.suspect(is_so=True)

    def _take_back(self) -> None:
        """Reopen everything after the locks were lost, or after a failed reopen; the caller has the turn."""
        from logging import getLogger  # imported with the first message, since it doubles the import time

        getLogger("holdfast").warning("store %s is opened again: %s", self.name, LOST)
        try:
            self.locks.take_back()
        except apsw.Error as error:
            raise translated(error, self.path) from error
        except OSError as error:
            raise translated_os(error, self.path) from error

    def _trust_wal(self) -> None:
        """The first process to open it, or one that finds it suspect, rewrites the WAL before it uses it.

        It may have been left by a process that died before it could report a failed sync. Then the WAL is
        checkpointed, so that the next process finds nothing to do.
        """
        if (self._owners.is_suspect or self._owners.is_alone) and wal_size(self.path):
            self._rewrite_suspect_wal()
            self.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _make_safe(self) -> None:
        """Make writing safe again, or raise; the caller has the turn."""
        for connection in (self.synced, self.flushed):
            if connection.in_transaction:  # an asynchronous exception came between BEGIN and its handler
                connection.execute("ROLLBACK")
        if self.trouble == "failed":
            self._rewrite_suspect_wal()
        if self._is_old:
            self._migrate()
        self.trouble = ""

    def _undo(self, connection: apsw.Connection, error: BaseException) -> None:
        """Roll back; after this ``trouble`` is right whether or not that worked."""
        if self.trouble == "forked":
            # the exception unwinds a forked child: the transaction belongs to its parent, who continues it
            return
        if connection.in_transaction:  # some errors make SQLite roll back by itself
            try:
                connection.execute("ROLLBACK")
            except apsw.Error as second:
                error.add_note(f"and the rollback said: {second}")
                return
        self.trouble = ""

    def _rewrite_suspect_wal(self) -> None:
        """Before the next acknowledgement, bring to the disk what a failed sync may have lost."""
        try:
            # An empty transaction: its write lock keeps the WAL unchanged while it is rewritten.
            self.synced.execute("BEGIN IMMEDIATE")
            try:
                rewrite_wal(self.path)
            finally:
                self.synced.execute("ROLLBACK")
        except apsw.Error as error:
            raise translated(error, self.path, system_errno=self.synced.system_errno) from error
        self._owners.suspect(is_so=False)

    def _migrate(self) -> None:
        """Migrate the store to this format; does nothing if another process has done it."""
        try:
            self.synced.execute("BEGIN IMMEDIATE")
            try:
                if self._owners.is_older_alive():
                    problem = "an older Holdfast has it open, and would keep writing in its own format"
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
        if self.trouble == "forked":
            raise ForkedHandle(what=f"store {self.name}", opened_by=self.opened_by, used_by=os.getpid())
        raise HandleClosed(what=f"store {self.name}")

    # -- as a member of its locks ----------------------------------------------------------------------------

    def shut(self) -> None:
        """Close the connections; open transactions are rolled back."""
        if self.trouble != "shut":
            self.trouble = "shut"
            for connection in (self.reading, self.flushed, self.synced):
                connection.close()

    def reopen(self) -> None:
        """Open the connections. May raise apsw.Error and OSError; then it stays closed."""
        opened: list[apsw.Connection] = []
        try:
            for role in ("synced", "flushed", "reading"):
                opened.append(open_connection(self.path, role, self.shape))  # noqa: PERF401 - some may be open when one fails
            for connection in opened[:2]:
                connection.set_wal_hook(self._note_wal)
            self._inode = self.path.stat().st_ino
        except BaseException:
            for connection in opened:
                connection.close()
            raise
        self.synced, self.flushed, self.reading = opened
        self._is_old = self._reads_old = is_old(self.synced, self.shape)
        if self._is_old:
            show_as_new(self.reading)
        self.trouble = "failed" if self._owners.is_suspect else "old" if self._is_old else ""

    # -- fork ------------------------------------------------------------------------------------------------

    def disown(self) -> None:
        """In a forked child: refuse from now on, and never touch the parent's connections."""
        # Threads that do not exist here may hold the old locks.
        self.moved = Condition()
        self.locks.make_locks()
        self.writing, self.looking = self.locks.writing, self.locks.looking
        if self.trouble != "closed":
            if self.trouble != "shut":
                _make_immortal((self.synced, self.flushed, self.reading))
            self.trouble = "forked"


_opened: weakref.WeakSet[Database] = weakref.WeakSet()


def _make_immortal(connections: tuple[apsw.Connection, ...]) -> None:
    """Keep the objects from ever being finalized, also when the interpreter exits.

    Finalizing closes the connection, and closing one that was in a transaction at the fork rolls back that
    transaction in the memory that the parent shares with us. Module globals are cleared at exit; a leaked
    reference is not.
    """
    import ctypes

    for connection in connections:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _disown_after_fork() -> None:
    for database in tuple(_opened):
        database.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_after_fork)


@atexit.register
def _checkpoint_at_exit() -> None:
    """Most programs never close their store: checkpoint it, so that they still leave one file behind.

    It is not closed: the program's own exit handlers may still record something.
    """
    for database in tuple(_opened):
        database.checkpoint_at_end()
