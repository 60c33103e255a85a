"""What all connections of this process to one database file share: the turn, and the state of SQLite's locks.

POSIX drops every lock that a process has on a file when any descriptor of that file is closed in it: by a
backup, by a hash of the directory, by another SQLite. SQLite does not notice, and continues as if it held
them. So a lock of our own is taken beside SQLite's, on an unused byte, and checked before and after
everything that counts. Lost locks come back only when *every* connection of the process has been closed:
SQLite takes a lock once per file and counts its users.

The turn is a byte of the side file, whose lock cannot be dropped: a process has it while it opens the
database, writes to it or checkpoints its WAL, so that no two processes do that at once even while their locks
are lost.

The invariant: the probe is opened before the first connection and closed after the last one; no other code of
ours closes a descriptor of these files.
"""

import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import StoreBusy
from holdfast.stores.sqlite.locks.bytelock import NOTICES_LOSS, is_gone, mark
from holdfast.stores.sqlite.locks.owners import Owners

LOST: Final = (
    "this process has lost its locks on the file: some part of it has opened and closed the file by itself "
    "(a copy, a hash, another SQLite)"
)
_FIRST: Final = 1 << 40
"""Far beyond the bytes that SQLite locks, and beyond the end of any database."""
_FLAGS: Final = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_POLL_S: Final = 0.000_1
_POLL_S_MAX: Final = 0.005


class Member(Protocol):
    """Connections that are closed and reopened together with the others."""

    def shut(self) -> None:
        """Close them."""
        ...

    def reopen(self) -> None:
        """Open them again."""
        ...


class LockProbe:
    """One POSIX lock on the database and one on the index of its WAL. May raise OSError."""

    def __init__(self, database: Path) -> None:
        self._fds: list[int] = []
        self._questions: list[Callable[[], bytes]] = []
        if not NOTICES_LOSS:
            return
        offset = _FIRST + secrets.randbelow(1 << 61)
        try:
            for name, flags in ((database.name, 0), (f"{database.name}-shm", os.O_CREAT)):
                fd = os.open(database.with_name(name), _FLAGS | flags, 0o600)
                self._fds.append(fd)
                self._questions.append(mark(fd, offset))
        except BaseException:
            self.close()
            raise

    @property
    def is_lost(self) -> bool:
        """Whether the locks are gone, ours and with them SQLite's."""
        for ask in self._questions:  # noqa: SIM110 - any() takes twice as long, and this is asked at every use
            if is_gone(ask()):
                return True
        return False

    def close(self) -> None:
        """Release them; only when no connection of this process needs its locks any more."""
        self._questions = []
        while self._fds:
            os.close(self._fds.pop())


class FileLocks:
    """The locks of one file in this process."""

    def __init__(self, path: Path, owners: Owners, *, of_search: bool) -> None:
        self.path: Final = path
        self.turn: Final = owners.turn(of_search=of_search)
        self.end_turn: Callable[[], object] = self.turn.unlock
        """Releases the turn, or does nothing without it.

        Not a Python function, so that no signal handler can run first.
        """
        self.members: list[Member] = []
        self.probe: LockProbe | None = None
        self.lookers = 0
        """The number of open connections besides the members', for long reads."""
        self.make_locks()

    def make_locks(self) -> None:
        """New locks for this process's threads, also in a forked child.

        The old ones may never be released there.
        """
        self.writing = threading.Lock()
        self.looking = threading.Lock()
        self.looked = threading.Condition()

    @property
    def is_lost(self) -> bool:
        """Whether SQLite's locks are gone; check before and after whatever relies on them."""
        return self.probe is None or self.probe.is_lost

    def begin_turn(self) -> None:
        """Keep all other processes out; the caller holds ``writing``, and always calls ``end_turn``."""
        if self.turn.try_lock():
            return
        wait_s, deadline = _POLL_S, SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
        while not self.turn.try_lock():
            if SystemClock.monotonic() > deadline:
                raise StoreBusy(
                    store=str(self.path),
                    problem="another process is writing to it and does not finish, or is stopped",
                )
            SystemClock.sleep(wait_s)
            wait_s = min(2 * wait_s, _POLL_S_MAX)

    def join(self, member: Member) -> None:
        """Open one more member's connections; the caller has the turn."""
        if self.is_lost and self.members:
            self.take_back()
        if self.probe is None:
            self.probe = LockProbe(self.path)
        member.reopen()
        self.members.append(member)

    def leave(self, member: Member) -> None:
        """Close a member's connections; the caller has ``writing`` and ``looking``."""
        member.shut()
        self.members.remove(member)
        if not self.members:
            self._let_go()

    def take_back(self) -> None:
        """Take every lock again: close all connections of this process and reopen them.

        The caller has the turn.
        """
        with self.looked:
            if not self.looked.wait_for(lambda: not self.lookers, limits.BUSY_TIMEOUT_S):
                raise StoreBusy(
                    store=str(self.path),
                    problem=f"{LOST}; a running doctor keeps it from being reopened",
                )
        with self.looking:
            for member in self.members:
                member.shut()
            self._let_go()
            self.probe = LockProbe(self.path)
            for member in self.members:
                member.reopen()

    def disown(self) -> None:
        """In a forked child: the turn and the locks belong to the parent."""
        self.end_turn = lambda: None
        self.make_locks()
        self._let_go()

    def _let_go(self) -> None:
        probe, self.probe = self.probe, None
        if probe is not None:
            probe.close()


_registry: dict[tuple[int, int], FileLocks] = {}
opening = threading.Lock()
"""Held while connections of a file are first opened or finally closed: one at a time in this process."""


def locks_of(path: Path, owners: Owners, *, of_search: bool) -> FileLocks:
    """This process's locks of the file at a path; the caller holds ``opening``."""
    status = path.stat()
    key = (status.st_dev, status.st_ino)
    found = _registry.get(key)
    if found is None or not found.members:
        found = _registry[key] = FileLocks(path, owners, of_search=of_search)
    return found


def _disown_after_fork() -> None:
    global opening  # noqa: PLW0603 - it may have been held by a thread that does not exist here
    opening = threading.Lock()
    for locks in _registry.values():
        locks.disown()
    _registry.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_after_fork)
