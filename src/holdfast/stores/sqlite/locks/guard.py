"""What this process holds on the files of an open database, so that no other SQLite takes them from under it.

SQLite's own locks cannot do that. POSIX drops every lock that a process has on a file when any descriptor of that file is
closed in it: by a backup, by a hash of the directory, by another SQLite. And two SQLites in one process never see each
other's: the second one, when it closes, believes to be alone and deletes the WAL; when it opens, it empties ``-shm``. So
these things are done here, all through two descriptors of our own:

- **Guard locks**, which belong to the descriptor and which nothing drops. A read lock on the bytes by which SQLite holds a
  database open: as long as it is there, nobody gets the exclusive lock under which a WAL is deleted. And a read lock on the byte of
  ``-shm`` that says that it is in use: nobody empties it. During a write a third one, on the byte under which ``-shm`` is made
  anew from the WAL: a SQLite in this process that reads it while it changes would take it for damaged, and undo our commit.
- **The probe**: a POSIX lock beside SQLite's on ``-shm``, on a byte that nobody looks at. If it is gone, then those are gone
  by which SQLite keeps foreign writers out while it writes.
- **The stamp**: what ``-shm`` tells of checkpoints. If it stays the same from before a read until after it, then nobody has
  changed what was read, whatever became of the lock that SQLite reads under.

The invariant: the descriptors are open before the first connection of this process and until after the last one. Closing
them drops SQLite's locks, too. Where locks of descriptors do not exist (see ``bytelock``) nothing is held.
"""

import os
import secrets
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import StoreBusy
from holdfast.stores.sqlite.locks.bytelock import (
    NOTICES_LOSS,
    is_gone,
    lock_alone,
    lock_shared,
    mark,
    unlocker,
)

_OPEN_FIRST: Final = 0x4000_0002
_OPEN_COUNT: Final = 510
"""SQLite's shared lock on a database, see "File Locking And Concurrency" in its documentation."""
_INDEX_IN_USE: Final = 128
"""The byte of ``-shm`` that every connection has a read lock on; who finds none empties the file."""
_RECOVERY: Final = 122
"""The byte of ``-shm`` that is locked alone by who makes it anew from the WAL."""
_SALT: Final = 32
_ATTEMPTED: Final = 128
"""Where the WAL-index tells which WAL it is of, and how far anybody has begun to fold it, see "WAL-mode File Format"."""
_UNNOTICED: Final = 1 << 40
"""Far behind the bytes that SQLite locks, and behind the end of any file."""
_FLAGS: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_POLL_S: Final = 0.001


class Guard:
    """The locks of this process on one database and on the index of its WAL. May raise OSError, StoreBusy."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._fds: list[int] = []
        self._index = -1
        self.users = 1
        self._counting = threading.Lock()
        self._ask: Callable[[], bytes] | None = None
        self.allow_recovery: Callable[[], object] = bytes
        """Undo ``prevent_recovery``; does nothing where it was not called."""
        self._offset = _UNNOTICED + secrets.randbelow(1 << 61)
        _guards.add(self)
        if not NOTICES_LOSS:
            return
        try:
            file = self._open(database, 0)
            _wait_for(partial(lock_shared, file, _OPEN_FIRST, _OPEN_COUNT), database)
            # Not earlier: who has the exclusive lock may be about to delete it.
            self._index = self._open(database.with_name(f"{database.name}-shm"), os.O_CREAT)
            _wait_for(partial(_use_index, self._index), database)
            self.allow_recovery = unlocker(self._index, _RECOVERY)
            self.mark()
        except BaseException:
            self.abandon()
            raise

    def mark(self) -> None:
        """Set the probe, also again after it was lost; no connection of this process may be writing meanwhile."""
        if self._index >= 0:
            self._ask = mark(self._index, self._offset)

    def prevent_recovery(self) -> None:
        """Let nobody make ``-shm`` anew while something is written; who is about to is waited for."""
        if not self.prevents_recovery():
            _wait_for(self.prevents_recovery, self._database)

    def prevents_recovery(self) -> bool:
        """The same without waiting: whether it could be done."""
        return self._index < 0 or lock_shared(self._index, _RECOVERY, 1)

    @property
    def is_lost(self) -> bool:
        """Whether this process has lost its POSIX locks on ``-shm`` since the last mark; also where nobody can tell."""
        if self._ask is None:
            return False
        try:
            return is_gone(self._ask())
        except OSError:
            return True

    def stamp(self) -> bytes:
        """The same before and after something was read: then nothing of it was changed meanwhile."""
        if self._index < 0:
            return b""
        found = os.pread(self._index, _ATTEMPTED + 4 - _SALT, _SALT)
        return found[:8] + found[_ATTEMPTED - _SALT :]

    def share(self) -> None:
        """Somebody else has a connection open, too."""
        with self._counting:
            self.users += 1

    def let_go(self) -> None:
        """The connections of one user are closed. With the last one the locks are given up."""
        with self._counting:
            self.users -= 1
            if not self.users:
                self.abandon()

    def abandon(self) -> None:
        """Close the descriptors. In a forked child the parent keeps its locks: only that it closes its own gives them up."""
        self._ask, self._index, self.allow_recovery = None, -1, bytes
        while self._fds:
            os.close(self._fds.pop())

    def _open(self, path: Path, flags: int) -> int:
        fd = os.open(path, _FLAGS | flags, 0o600)
        self._fds.append(fd)
        return fd


def _use_index(fd: int) -> bool:
    """Do what SQLite does when it opens the file: who is alone there empties it, since it may be older than the WAL.

    After that SQLite sees that it is in use, and reads the WAL anew, because it finds nothing.
    """
    if lock_alone(fd, _INDEX_IN_USE, 1):
        os.ftruncate(fd, 0)
    return lock_shared(fd, _INDEX_IN_USE, 1)


def _wait_for(try_lock: Callable[[], bool], database: Path) -> None:
    deadline = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
    while not try_lock():
        if SystemClock.monotonic() > deadline:
            raise StoreBusy(
                store=str(database), problem="another program has locked the file for itself alone"
            )
        SystemClock.sleep(_POLL_S)


def retire(path: Path) -> None:
    """Before a store takes the place of an empty file: another SQLite may have made that, and may have it open.

    When it next looked, it would find the WAL of the store beside its empty database, and delete it. So it may not look any
    more, as long as this process lives; what it opens anew is the store. May raise OSError, StoreBusy.
    """
    if NOTICES_LOSS and path.exists():
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
