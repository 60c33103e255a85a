"""Non-blocking locks on single bytes of a file; the only module that knows the system calls for that.

Linux: *open file description* locks. They belong to the descriptor, so closing another descriptor of the same
file does not drop them, and they end with the process however it ends. A forked child inherits them together
with the descriptor: it must close its copy. The file does not grow: a lock may be far beyond the end of an
empty file.

Elsewhere: ``flock`` on a separate file for each byte, which behaves the same. Written for macOS and tested on
Linux. Windows has neither: ``stores/url`` refuses a store in a file there before this module is loaded.

SQLite itself uses classic POSIX locks. They belong to the process, and **all of them on a file are dropped
when any descriptor of that file is closed in it**. ``mark`` takes one and asks, from another descriptor's
view, whether it is still there: the only way to notice that SQLite's are gone. That needs Linux; elsewhere
nothing is noticed.
"""

import fcntl
import os
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol

NOTICES_LOSS: Final = sys.platform == "linux" and struct.calcsize("P") == 8
"""Whether lost POSIX locks are noticed here."""
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FLOCK: Final = struct.Struct("@hhqqi0q")
"""Linux's ``struct flock`` on 64 bits: type, whence, start, length, process."""


class Byte(Protocol):
    """One byte of a lock file, through one descriptor.

    An OSError means that locks do not work on this file.
    """

    @property
    def unlock(self) -> Callable[[], object]:
        """Releases it, or does nothing.

        On Linux not a Python function, so that no signal handler can run first.
        """
        ...

    @property
    def lock(self) -> Callable[[], object]:
        """Locks it, or raises OSError if that is not possible now. On Linux not a Python function."""
        ...

    def try_lock(self) -> bool:
        """Whether it could be locked now, or was already."""
        ...

    def is_taken(self) -> bool:
        """Whether another descriptor holds it."""
        ...

    def close(self) -> None:
        """Release what belongs to this byte alone."""
        ...


def open_lock_file(path: str) -> int:
    """A descriptor of a file for locks, created if needed, private to the user; never through a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o600)


FREE = struct.pack("@h", fcntl.F_UNLCK)
"""How the answer to a query of ``mark`` begins if the lock is free: then this process has lost all its
POSIX locks on that file."""


class FileByte:
    """A byte in a separate file."""

    def __init__(self, path: str, offset: int) -> None:
        self._path = f"{path}.{offset:x}"
        self._fd: int | None = None

    def try_lock(self) -> bool:
        try:
            self._take()
        except BlockingIOError:
            return False
        return True

    @property
    def lock(self) -> Callable[[], object]:
        return self._take

    def _take(self) -> None:
        if self._fd is None:
            self._fd = open_lock_file(self._path)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def unlock(self) -> Callable[[], object]:
        return self._let_go

    def _let_go(self) -> None:
        if self._fd is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def is_taken(self) -> bool:
        try:
            fd = os.open(self._path, os.O_RDWR | _NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class DescriptorByte:
    """A byte of a shared file, locked for one descriptor. Only if ``NOTICES_LOSS``."""

    __slots__ = ("_fd", "_lock", "_request", "_unlock")

    def __init__(self, fd: int, offset: int) -> None:
        self._fd = fd
        self._request = _request(fcntl.F_WRLCK, offset)
        self._lock = partial(fcntl.fcntl, fd, fcntl.F_OFD_SETLK, self._request)
        self._unlock = unlocker(fd, offset)

    @property
    def lock(self) -> Callable[[], object]:
        return self._lock

    @property
    def unlock(self) -> Callable[[], object]:
        return self._unlock

    def try_lock(self) -> bool:
        return _could_set(self._fd, self._request)

    def is_taken(self) -> bool:
        return _found(self._fd, self._request)[0] != fcntl.F_UNLCK

    def close(self) -> None:
        pass


def lock_shared(fd: int, offset: int, length: int) -> bool:
    """Whether the descriptor now has a shared lock on these bytes. Only where ``NOTICES_LOSS``."""
    return _could_set(fd, _request(fcntl.F_RDLCK, offset, length))


def lock_alone(fd: int, offset: int, length: int) -> bool:
    """Whether the descriptor now has an exclusive lock on these bytes. Only where ``NOTICES_LOSS``."""
    return _could_set(fd, _request(fcntl.F_WRLCK, offset, length))


def unlocker(fd: int, offset: int) -> Callable[[], object]:
    """A call that unlocks a byte. Not a Python function, so that no signal handler can run before it."""
    return partial(fcntl.fcntl, fd, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK, offset))


def shared_locker(fd: int, offset: int) -> Callable[[], object]:
    """A call that takes a shared lock on a byte, or raises OSError. Only where ``NOTICES_LOSS``."""
    return partial(fcntl.fcntl, fd, fcntl.F_OFD_SETLK, _request(fcntl.F_RDLCK, offset))


def mark(fd: int, offset: int) -> Callable[[], bytes]:
    """Take a POSIX lock of this process on a byte; returns the query whose answer may be ``FREE``."""
    fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, offset, os.SEEK_SET)
    ask: Callable[[], Any] = partial(fcntl.fcntl, fd, fcntl.F_OFD_GETLK, _request(fcntl.F_WRLCK, offset))
    return ask


def others(fd: int, first: int, last: int) -> Iterator[bool]:
    """The locks of other descriptors and processes in a range; for each, whether it is a POSIX lock."""
    ranges = [(first, last)] if NOTICES_LOSS else []
    while ranges:
        first, last = ranges.pop()
        asked = _request(fcntl.F_WRLCK, first, last - first + 1)
        kind, _, start, length, process = _found(fd, asked)
        if kind != fcntl.F_UNLCK:
            yield process != -1
            # The kernel reports any conflicting lock, not the first.
            both = ((first, start - 1), (start + length, last))
            ranges += [(low, high) for low, high in both if low <= high]


def _request(kind: int, offset: int, length: int = 1) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, offset, length, 0)


def _could_set(fd: int, request: bytes) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, request)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _found(fd: int, question: bytes) -> tuple[int, int, int, int, int]:
    answer: bytes = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, question)
    kind, whence, start, length, process = _FLOCK.unpack(answer)
    return kind, whence, start, length, process


def byte_at(path: str, fd: int, offset: int) -> Byte:
    """The byte at an offset of the file at a path, which is open as this descriptor."""
    return DescriptorByte(fd, offset) if NOTICES_LOSS else FileByte(path, offset)
