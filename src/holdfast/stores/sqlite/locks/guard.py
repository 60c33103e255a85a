"""What this process holds on the files of an open database, so that no other SQLite takes them from under it.

SQLite's own locks cannot do that. POSIX drops every lock that a process has on a file when any descriptor of
that file is closed in it: by a backup, by a hash of the directory, by another SQLite. And two SQLites in one
process never see each other's locks: the second one, when it closes, believes to be alone and deletes the
WAL; when it opens, it empties ``-shm``. So this module does three things, through two descriptors of its own:

- **Guard locks**, which belong to the descriptor and which nothing drops. A read lock on the bytes by which
  SQLite holds a database open: it prevents the exclusive lock under which a WAL is deleted. A read lock on
  the byte of ``-shm`` that says that it is in use: it keeps every SQLite from emptying the file. During a
  write a third one, on the byte under which ``-shm`` is rebuilt from the WAL: a SQLite in this process that
  reads it while it changes would take it for damaged, and undo our commit.
- **The probe**: a POSIX lock beside SQLite's on ``-shm``, on a byte that no SQLite reads. If it is gone, then
  the locks are gone by which SQLite keeps foreign writers out while it writes.
- **The stamp**: what ``-shm`` says about checkpoints. If it stays the same from before a read until after it,
  then what was read has not changed, whatever became of the lock that SQLite reads under.

And it keeps an eye on the WAL, which a cleaning script may delete: SQLite would write on, to a file that no
process can open again.

The invariant: the descriptors are open before the first connection of this process and until after the last
one. Closing one drops the locks of *every* SQLite in this process. So it is closed only while it holds its
guard lock: then none of them has the exclusive lock under which it deletes the WAL, and believes to have it
still. Where locks of descriptors do not exist (see ``bytelock``) this module holds nothing.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import apsw

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import StoreBusy
from holdfast.stores.sqlite.locks.bytelock import (
    FREE,
    NOTICES_LOSS,
    lock_alone,
    lock_shared,
    mark,
    shared_locker,
    unlocker,
)

if TYPE_CHECKING:
    from _typeshed import StrPath

_OPEN_FIRST: Final = 0x4000_0002
_OPEN_COUNT: Final = 510
"""SQLite's shared lock on a database, see "File Locking And Concurrency" in its documentation."""
_INDEX_IN_USE: Final = 128
"""The byte of ``-shm`` that every connection has a read lock on; who finds none empties the file."""
_CHECKPOINT: Final = 121
"""The byte of ``-shm`` that a connection locks alone while it folds the WAL into the database."""
_RECOVERY: Final = 122
"""The byte of ``-shm`` that a connection locks alone while it rebuilds the file from the WAL."""
_SALT: Final = 32
_ATTEMPTED: Final = 128
"""Where the WAL-index names its WAL, and says how far a fold has begun, see "WAL-mode File Format"."""
_UNNOTICED: Final = 1 << 40
"""Far behind the bytes that SQLite locks, and behind the end of any file."""
_HEADER_BYTES: Final = 100
_SAFELY: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FLAGS: Final = os.O_RDWR | _SAFELY
_POLL_S: Final = 0.001


class Guard:
    """The locks of this process on one database and on the index of its WAL. May raise OSError, StoreBusy."""

    def __init__(self, database: "StrPath") -> None:
        self._database = database
        self._fds: list[int] = []
        self._file = self._index = self._wal = -1
        self.users = 1
        self._counting = threading.Lock()
        self._ask: Callable[[], bytes] | None = None
        self.refuse_recovery: Callable[[], object] = bytes
        """As ``prevent_recovery``, but raises OSError instead of waiting. Not a Python function: faster."""
        self.allow_recovery: Callable[[], object] = bytes
        """Undo ``prevent_recovery``; does nothing where it was not called."""
        self._offset = _UNNOTICED + (int.from_bytes(os.urandom(8), "big") >> 3)
        _guards.add(self)
        if not NOTICES_LOSS:
            return
        try:
            self._file = self._open(database, _FLAGS)
            _hold_open(self._file, database)
            # Not earlier: who has the exclusive lock may be about to delete it.
            self._index = self._open(f"{database}-shm", _FLAGS | os.O_CREAT)
            _wait_for(partial(_use_index, self._index), database)
            self.refuse_recovery = shared_locker(self._index, _RECOVERY)
            self.allow_recovery = unlocker(self._index, _RECOVERY)
            self.mark()
        except BaseException:
            self.abandon()
            raise

    def watch_wal(self) -> None:
        """Called when connections are open, and with them their WAL: from now on it is known if it goes."""
        if NOTICES_LOSS and self._wal < 0:
            self._wal = self._open(f"{self._database}-wal", os.O_RDONLY)

    @property
    def is_wal_deleted(self) -> bool:
        """Whether the WAL that SQLite writes to has no name any more."""
        return self._wal >= 0 and not os.fstat(self._wal).st_nlink

    @property
    def is_index_deleted(self) -> bool:
        """Whether the same is true of ``-shm``."""
        return self._index >= 0 and not os.fstat(self._index).st_nlink

    def header(self) -> bytes | None:
        """The first bytes of the database; None where nothing is held."""
        return None if self._file < 0 else os.pread(self._file, _HEADER_BYTES, 0)

    def mark(self) -> None:
        """Set the probe, also again after it was lost; no connection of this process may write meanwhile."""
        if self._index >= 0:
            self._ask = mark(self._index, self._offset)

    def prevent_recovery(self) -> None:
        """Let no SQLite rebuild ``-shm`` during a write; wait for one that is about to."""
        if not self.prevents_recovery():
            _wait_for(self.prevents_recovery, self._database)

    def prevents_recovery(self) -> bool:
        """The same without waiting: whether it could be done."""
        return self._index < 0 or lock_shared(self._index, _RECOVERY, 1)

    @contextmanager
    def no_checkpoint(self) -> Iterator[None]:
        """Let no SQLite fold the WAL meanwhile; wait for one that does. OSError, StoreBusy."""
        if self._index < 0:
            yield
            return
        _wait_for(partial(lock_alone, self._index, _CHECKPOINT, 1), self._database)
        try:
            yield
        finally:
            unlocker(self._index, _CHECKPOINT)()

    @property
    def is_lost(self) -> bool:
        """Whether this process lost its POSIX locks on ``-shm`` since the last mark; also true if unknown."""
        if self._ask is None:
            return False
        try:
            return self._ask()[:2] == FREE
        except OSError:
            return True

    def has_held(self) -> bool:
        """Whether neither the locks are lost nor the WAL is deleted, in one look; False if unknown."""
        ask, wal = self._ask, self._wal
        try:
            return (ask is None or ask()[:2] != FREE) and (wal < 0 or os.fstat(wal).st_nlink > 0)
        except OSError:
            return False

    def stamp(self) -> bytes:
        """The same before and after something was read: then nothing of it was changed meanwhile."""
        if self._index < 0:
            return b""
        found = os.pread(self._index, _ATTEMPTED + 4 - _SALT, _SALT)
        return found[:8] + found[_ATTEMPTED - _SALT :]

    def share(self) -> None:
        """Count one more user, which has connections of its own."""
        with self._counting:
            self.users += 1

    def let_go(self) -> None:
        """The connections of one user are closed. With the last one the locks are given up."""
        with self._counting:
            self.users -= 1
            if not self.users:
                self.abandon()

    def abandon(self) -> None:
        """Close the descriptors. In a forked child the parent keeps its locks until it closes its own."""
        self._ask, self.refuse_recovery, self.allow_recovery = None, bytes, bytes
        self._file = self._index = self._wal = -1
        while self._fds:
            os.close(self._fds.pop())

    def _open(self, path: "StrPath", flags: int) -> int:
        fd = os.open(path, flags | _SAFELY, 0o600)
        self._fds.append(fd)
        return fd


def header_of(path: "StrPath") -> bytes:
    """The first bytes of a file that this process has no connection to. May raise OSError, StoreBusy.

    Not with a connection: one that ignores the WAL calls the file corrupt when a checkpoint was cut off, and
    one that reads it would fold in the WAL of a stranger.
    """
    if not NOTICES_LOSS:
        return _header_by_sqlite(path)
    fd = os.open(path, os.O_RDONLY | _SAFELY)
    try:
        _hold_open(fd, path)
        return os.pread(fd, _HEADER_BYTES, 0)
    finally:
        os.close(fd)


def _header_by_sqlite(path: "StrPath") -> bytes:
    """Through SQLite's own file layer: it closes no descriptor while one of its connections holds a lock."""
    file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
    try:
        return file.xRead(_HEADER_BYTES, 0)
    finally:
        file.xClose()


def _hold_open(fd: int, database: "StrPath") -> None:
    """Keep every SQLite from the exclusive lock; wait for one that has it, in this process or another."""
    _wait_for(partial(lock_shared, fd, _OPEN_FIRST, _OPEN_COUNT), database)


def _use_index(fd: int) -> bool:
    """Do what SQLite does when it opens the file: empty it if no other has it open, as it may be outdated.

    After that SQLite sees that it is in use, finds nothing in it, and so reads the WAL again.
    """
    if lock_alone(fd, _INDEX_IN_USE, 1):
        os.ftruncate(fd, 0)
    return lock_shared(fd, _INDEX_IN_USE, 1)


def _wait_for(try_lock: Callable[[], bool], database: "StrPath") -> None:
    deadline = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
    while not try_lock():
        if SystemClock.monotonic() > deadline:
            raise StoreBusy(
                store=str(database), problem="another program has locked the file for itself alone"
            )
        SystemClock.sleep(_POLL_S)


def retire(path: "StrPath") -> None:
    """Before a store replaces an empty file: another SQLite may have made that file, and have it open.

    When it next looked, it would find the WAL of the store beside its empty database, and delete it. So it
    may not look any more, as long as this process lives; when it opens the path again, it opens the store.
    May raise OSError, StoreBusy.
    """
    if NOTICES_LOSS and os.path.exists(path):
        fd = os.open(path, _FLAGS)
        _retired.append(fd)
        _wait_for(partial(lock_alone, fd, _OPEN_FIRST, _OPEN_COUNT), path)


_retired: Final[list[int]] = []
_guards: Final[weakref.WeakSet[Guard]] = weakref.WeakSet()


def _abandon_after_fork() -> None:
    for guard in tuple(_guards):
        guard.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_after_fork)
