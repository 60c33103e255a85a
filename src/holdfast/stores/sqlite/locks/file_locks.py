"""What all connections of this process to one database file share: the turn, and the guard of its files.

The turn is a byte of the side file, which nothing can drop. A process takes it to open the database, to write
to it or to fold its WAL, so that no two processes of ours do that at once even while SQLite's locks are lost.
The ``guard`` keeps all others from deleting the files that are open here.

A forked child has none of these locks, but its copy of SQLite's memory says that it has, for as long as an
inherited connection is open. So a fork waits until no thread is inside SQLite; the child closes what it
inherited, and locks what it opens itself. Where a thread does not come out in time, the child may not open
the file at all.
"""

import errno
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import StoreBusy, StoreUnavailable
from holdfast.stores.sqlite.locks import guard
from holdfast.stores.sqlite.locks.guard import Guard
from holdfast.stores.sqlite.locks.owners import Owners

if TYPE_CHECKING:
    from _typeshed import StrPath

LOST: Final = (
    "this process has lost its locks on the file: some part of it has opened and closed the file by itself "
    "(a copy, a hash, another SQLite)"
)
_POLL_S: Final = 0.000_1
_POLL_S_MAX: Final = 0.005


class FileLocks:
    """The locks of one file in this process."""

    def __init__(self, path: "StrPath", key: tuple[int, int], owners: Owners, *, of_search: bool) -> None:
        self.path: Final = path
        self._key: Final = key
        self.turn: Final = owners.turn(of_search=of_search)
        self.take_turn: Callable[[], object] = self.turn.lock
        """Keep all other processes out, or raise OSError. On Linux not a Python function."""
        self.end_turn: Callable[[], object] = self.turn.unlock
        """Give the turn back, or do nothing without it. Not a Python function, so that no signal handler can
        run before it. Where it raises OSError, the turn is still ours: see ``end_turn_late``."""
        self.members = 0
        """Open databases that share these locks."""
        self.guard: Guard | None = None
        self.is_quiet = False
        """Whether no thread was inside SQLite with this file when this process was forked."""
        self.make_locks()

    def make_locks(self) -> None:
        """New locks for this process's threads, also in a forked child.

        The old ones may never be released there.
        """
        self.writing = threading.Lock()
        self.looking = threading.Lock()

    def begin_turn(self) -> None:
        """Keep all other processes out; the caller holds ``writing``, and always calls ``end_turn``."""
        if self._takes_turn():
            return
        wait_s, deadline = _POLL_S, SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
        while not self._takes_turn():
            if SystemClock.monotonic() > deadline:
                raise StoreBusy(
                    store=str(self.path),
                    problem="another process is writing to it and does not finish, or is stopped",
                )
            SystemClock.sleep(wait_s)
            wait_s = min(2 * wait_s, _POLL_S_MAX)

    def begins_turn(self) -> bool:
        """Whether a turn could begin at once, without recovery by others: the common case, in two calls.

        False if someone is in the way, or locks do not work now: ``begin_turn`` waits, or says why.
        """
        try:
            self.take_turn()
            if self.guard is not None:
                self.guard.refuse_recovery()
        except OSError:
            return False
        return True

    def _takes_turn(self) -> bool:
        try:
            return self.turn.try_lock()
        except OSError as error:
            if error.errno != errno.ENOLCK:
                raise
            return False  # the system has no memory for locks just now

    def end_turn_late(self, error: OSError) -> None:
        """The turn could not be given back: try again, or no other process writes until our next one ends."""
        deadline = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
        while SystemClock.monotonic() < deadline:
            SystemClock.sleep(_POLL_S_MAX)
            try:
                self.end_turn()
                if self.guard is not None:
                    self.guard.allow_recovery()
            except OSError:
                continue
            return
        from logging import getLogger  # loaded with the first word, since it doubles the import time

        getLogger("holdfast").warning(
            "store %s: this process cannot end its turn to write, and keeps others from writing: %s",
            self.path,
            error,
        )

    def join(self) -> Guard:
        """The caller is about to open one more database, and has the turn. May raise OSError, StoreBusy."""
        if self.guard is None:
            self.guard = Guard(self.path)
        else:
            self.guard.share()
        self.members += 1
        return self.guard

    def leave(self) -> None:
        """Its connections are closed; the caller has ``writing`` and ``looking``, or the turn."""
        assert self.guard is not None
        self.guard.let_go()
        self.members -= 1
        if not self.members:
            self.guard = None

    @property
    def has_lookers(self) -> bool:
        """Whether connections are open beside the members', for a long look."""
        return self.guard is not None and self.guard.users > self.members

    def disown(self) -> None:
        """In a forked child: the turn and the locks belong to the parent."""
        self.end_turn = lambda: None
        self.make_locks()
        self.guard = None

    def refuse_from_now_on(self) -> None:
        """For a forked child that had to leave an inherited connection open: it cannot lock this file."""
        _inherited.add(self._key)


_registry: dict[tuple[int, int], FileLocks] = {}
_inherited: set[tuple[int, int]] = set()
"""Files that SQLite believes to have locked in this forked child, without a way to tell it otherwise."""
_kept_still: dict[int, list[threading.Lock]] = {}
"""What a thread that forks holds meanwhile."""
opening = threading.Lock()
"""Held while connections of a file are first opened or finally closed: one at a time in this process."""


def locks_of(path: "StrPath", owners: Owners, *, of_search: bool) -> FileLocks:
    """This process's locks of the file at a path; the caller holds ``opening``."""
    status = os.stat(path)
    key = (status.st_dev, status.st_ino)
    if key in _inherited:
        raise StoreUnavailable(
            store=str(path),
            problem="this process was forked while its parent was in the middle of using the store, "
            "and cannot lock it",
            advice="fork before the store is opened, or start a new process (multiprocessing: 'spawn')",
        )
    found = _registry.get(key)
    if found is None or not found.members:
        found = _registry[key] = FileLocks(path, key, owners, of_search=of_search)
    return found


def header_of(path: "StrPath") -> bytes:
    """The first bytes of the file, whether or not this process has it open. May raise OSError, StoreBusy."""
    with opening:
        status = os.stat(path)
        found = _registry.get((status.st_dev, status.st_ino))
        held = None if found is None or found.guard is None else found.guard.header()
        return guard.header_of(path) if held is None else held


def _keep_still_before_fork() -> None:
    """Wait until no thread is inside SQLite, and keep them out while the fork is made."""
    deadline = SystemClock.monotonic() + limits.FORK_WAIT_S
    held = _kept_still[threading.get_ident()] = []

    def taken(lock: threading.Lock) -> bool:
        if lock.acquire(timeout=max(0.0, deadline - SystemClock.monotonic())):
            held.append(lock)
            return True
        return False

    is_alone = taken(opening)
    for locks in tuple(_registry.values()):
        locks.is_quiet = is_alone and taken(locks.writing) and taken(locks.looking) and not locks.has_lookers


def _go_on_after_fork() -> None:
    for lock in _kept_still.pop(threading.get_ident(), ()):
        lock.release()


def _disown_after_fork() -> None:
    global opening  # noqa: PLW0603 - it may have been held by a thread that does not exist here
    opening = threading.Lock()
    _kept_still.clear()
    for locks in _registry.values():
        locks.disown()
    _registry.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_keep_still_before_fork,
        after_in_parent=_go_on_after_fork,
        after_in_child=_disown_after_fork,
    )
