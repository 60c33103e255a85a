"""The three connections of one open store, and who may use them when.

``synced`` commits with an fsync, ``flushed`` without, ``reading`` never waits for either. One lock lets a single
thread write at a time; other processes are waited for by SQLite's busy timeout. There is one WAL, so a later
synced commit makes earlier flushed ones durable, in order: that is what ``dirty`` keeps track of.

The invariant: ``trouble`` is empty exactly while the next write may go straight ahead. Everything that could
make a write lie (closed, forked, a transaction left open by an exception, an fsync that failed) sets it first.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NoReturn

import apsw

from holdfast import limits
from holdfast.errors import ForkedHandle, HandleClosed, StoreUnavailable
from holdfast.stores.sqlite import statements
from holdfast.stores.sqlite.connection import STORE, Shape, open_connection
from holdfast.stores.sqlite.errors import translated, undecodable
from holdfast.stores.sqlite.rewriting import rewrite_wal

Trouble = Literal["", "closed", "forked", "open", "failed"]


class Database:
    """Connections, locks and the state between them. Internal to the package: verbs live in ``store``."""

    def __init__(self, path: Path, shape: Shape = STORE) -> None:
        self.path: Final = path
        self.name: Final = str(path)
        self.trouble: Trouble = ""
        self.dirty = False
        self.waiters = 0
        self.opened_by: Final = os.getpid()
        self._make_locks()
        self.synced: Final = open_connection(path, "synced", shape)
        self.flushed: Final = open_connection(path, "flushed", shape)
        self.reading: Final = open_connection(path, "reading", shape)
        self._inode: Final = path.stat().st_ino
        _opened.add(self)

    @property
    def is_gone(self) -> bool:
        """Whether this handle is closed, or belongs to the parent of this process."""
        return self.trouble in ("closed", "forked")

    # -- using it --------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, *, synced: bool) -> Iterator[apsw.Connection]:
        """One transaction, committed at the end and undone by any exception; the caller holds ``writing``."""
        if self.trouble:
            self.mend()
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
            self._undo(connection, error)
            if isinstance(error, apsw.Error):
                raise self.translate(error, connection) from error
            raise
        self.trouble = ""
        if connection.total_changes() != before:  # an empty commit writes nothing, so it syncs nothing
            if synced:
                self.dirty = False
            self.wake()

    @contextmanager
    def write(self, *, synced: bool) -> Iterator[apsw.Connection]:
        """One transaction, alone among this process's threads."""
        with self.writing, self.transaction(synced=synced) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """The reading connection, alone among this process's threads."""
        with self.looking:
            if self.is_gone:
                self._refuse()
            try:
                yield self.reading
            except apsw.Error as error:
                raise translated(error, self.path, system_errno=self.reading.system_errno) from error
            except UnicodeDecodeError as error:
                raise undecodable(error, self.path) from error

    def sync(self) -> None:
        """Make what was flushed survive power loss; nothing is written when nothing was flushed."""
        if self.dirty or self.trouble:
            with self.write(synced=True) as connection:
                if self.dirty:
                    connection.execute(statements.BUMP)

    def wake(self) -> None:
        """Tell this process's waiters that something was committed."""
        if self.waiters:
            with self.moved:
                self.moved.notify_all()

    def check_in_place(self) -> None:
        """Refuse if the file was deleted or replaced: SQLite would go on writing to what nobody can open again."""
        try:
            if self.path.stat().st_ino == self._inode:
                return
        except FileNotFoundError:
            pass
        raise StoreUnavailable(store=self.name, problem="the file was moved or deleted while it was open")

    # -- when something went wrong ----------------------------------------------------------------------------

    def mend(self) -> None:
        """Make writing safe again, or raise; the caller holds ``writing``."""
        if self.is_gone:
            self._refuse()
        for connection in (self.synced, self.flushed):
            if connection.in_transaction:  # an asynchronous exception fell between BEGIN and its handler
                connection.execute("ROLLBACK")
        if self.trouble == "failed":
            self._heal()
        self.trouble = ""

    def translate(self, error: apsw.Error, connection: apsw.Connection) -> Exception:
        """The error to raise after a failed write; an I/O failure makes the WAL suspect."""
        if isinstance(error, apsw.IOError):
            self.trouble = "failed"
        return translated(error, self.path, system_errno=connection.system_errno)

    def close(self) -> None:
        """Sync what was flushed, then let go of the connections; idempotent."""
        if self.is_gone:
            return
        try:
            self.sync()
        finally:
            with self.writing, self.looking:
                self.trouble = "closed"
                for connection in (self.reading, self.flushed, self.synced):
                    connection.close()
            with self.moved:
                self.moved.notify_all()

    def fold_wal(self) -> None:
        """Bring into the file what this process left in the WAL, if nobody is in the way: it takes no space twice then.

        Nothing depends on it, so nothing is waited for and nothing is raised.
        """
        if self.trouble or not any(c.total_changes() for c in (self.synced, self.flushed)):
            return
        if self.writing.acquire(blocking=False):
            try:
                self.synced.set_busy_timeout(0)
                self.synced.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except apsw.Error:  # it stays, and whoever opens the store next reads it there
                pass
            finally:
                self.synced.set_busy_timeout(int(limits.BUSY_TIMEOUT_S * 1000))
                self.writing.release()

    def _undo(self, connection: apsw.Connection, error: BaseException) -> None:
        """Roll back; after this ``trouble`` is right whether or not that worked."""
        if self.trouble == "forked":
            return  # the exception unwinds a child: the transaction is its parent's, who goes on with it
        if connection.in_transaction:  # some errors make SQLite roll back by itself
            try:
                connection.execute("ROLLBACK")
            except apsw.Error as second:
                error.add_note(f"and the rollback said: {second}")
                return
        self.trouble = ""

    def _heal(self) -> None:
        """Before anything is acknowledged again, bring to the disk what a failed sync may have lost."""
        try:
            self.synced.execute("BEGIN IMMEDIATE")
            try:
                rewrite_wal(self.path)
            finally:
                self.synced.execute("ROLLBACK")
        except apsw.Error as error:
            raise translated(error, self.path, system_errno=self.synced.system_errno) from error

    def _refuse(self) -> NoReturn:
        if self.trouble == "forked":
            raise ForkedHandle(what=f"store {self.name}", opened_by=self.opened_by, used_by=os.getpid())
        raise HandleClosed(what=f"store {self.name}")

    # -- fork ------------------------------------------------------------------------------------------------

    def _make_locks(self) -> None:
        self.writing = threading.Lock()
        self.looking = threading.Lock()
        self.moved = threading.Condition()

    def disown(self) -> None:
        """In a forked child: refuse from now on, and never touch the parent's connections."""
        self._make_locks()  # they may be held by threads that do not exist here
        if self.trouble != "closed":
            self.trouble = "forked"
            _make_immortal((self.synced, self.flushed, self.reading))


_opened: weakref.WeakSet[Database] = weakref.WeakSet()


def _make_immortal(connections: tuple[apsw.Connection, ...]) -> None:
    """Keep the objects from ever being finalized, also when the interpreter exits.

    Finalizing closes the connection, and closing one that was in a transaction when the fork happened undoes that
    transaction in the memory that the parent shares with us. Module globals are cleared at exit; a reference
    that nobody owns is not.
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
def _fold_at_exit() -> None:
    """Most programs never close their store: what they leave behind is one file all the same.

    Not closed, only tidied: the program's own exit handlers may still have something to record.
    """
    for database in tuple(_opened):
        database.fold_wal()
