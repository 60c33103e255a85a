"""Who is alive: each process holds one locked byte of a file beside the database for as long as it lives.

Obtainable means dead: the kernel lets go of the lock however the process ends, also while it is an unreaped
zombie, also in another PID namespace. An owner reads ``pid@host/offset.inode``: who and where for people, and
which byte of which file for a prober. If the file is not the one that the owner locked, nothing can be proven.

The invariant: this process has exactly one descriptor per lock file, and closes it only with its last store there
and only if it holds no run: closing any would drop the lock of all.
"""

import os
import re
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import StoreBusy
from holdfast.model.rows import Liveness
from holdfast.stores.sqlite.bytelock import try_lock, unlock

_CREATION_BYTE: Final = 0
_OFFSET_BITS: Final = 62
_POLL_S: Final = 0.01
_OWNER: Final = re.compile(r"\d+@[^/]*/(?P<offset>[0-9a-f]{1,16})\.(?P<inode>\d+)")
_HOST_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


class Owners:
    """The lock file of one database, as this process sees it: its own byte, and a way to look at others'."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path
        self.stores = 0
        """How many open stores of this process count on the lock."""
        self._inode = os.fstat(fd).st_ino
        self._offset = self._hold_a_byte()
        host = _HOST_UNSAFE.sub("-", socket.gethostname())
        self.name: Final = f"{os.getpid()}@{host}/{self._offset:x}.{self._inode}"

    def probe(self, owner: str) -> Liveness:
        """Whether the process behind an owner of this database lives; never blocks."""
        if owner == self.name:
            return (
                "alive"  # and never try: locking one's own byte succeeds, and unlocking it would give it up
            )
        found = _OWNER.fullmatch(owner)
        if found is None or int(found["inode"]) != self._inode or not self._is_in_place():
            return "unknown"
        offset = int(found["offset"], 16)
        if offset == _CREATION_BYTE or offset >= 1 << _OFFSET_BITS:
            return "unknown"
        try:
            if not try_lock(self._fd, offset, shared=True):
                return "alive"
            unlock(self._fd, offset)
        except OSError:
            return "unknown"
        return "dead"

    @contextmanager
    def creating(self) -> Iterator[None]:
        """Let one process at a time make the database file. The caller keeps its own threads apart."""
        deadline = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
        while not try_lock(self._fd, _CREATION_BYTE, shared=False):
            if SystemClock.monotonic() > deadline:
                raise StoreBusy(
                    store=str(self._path), problem="another process is creating it and does not finish"
                )
            SystemClock.sleep(_POLL_S)
        try:
            yield
        finally:
            unlock(self._fd, _CREATION_BYTE)

    def close(self) -> None:
        """Give up the byte, and with it every lock on the file."""
        os.close(self._fd)

    def _hold_a_byte(self) -> int:
        while True:
            offset = 1 + secrets.randbelow((1 << _OFFSET_BITS) - 1)
            if try_lock(self._fd, offset, shared=False):
                return offset

    def _is_in_place(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False


_registry: dict[tuple[int, int], Owners] = {}
_registry_lock = threading.Lock()


def owners_of(database: Path) -> Owners:
    """This process's place in the lock file beside a database, shared by all its stores. May raise OSError."""
    path = database.with_name(database.name + "-owners")
    with _registry_lock:
        held = _registry.get(_identity_at(path))
        if held is not None:
            return held
        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        status = os.fstat(fd)
        # If the file appeared in the registry meanwhile, this descriptor leaks on purpose: see the invariant.
        return _registry.setdefault((status.st_dev, status.st_ino), Owners(fd, path))


def hold(database: Path) -> Owners:
    """The owners of a database, for a store that is open from now on."""
    owners = owners_of(database)
    with _registry_lock:
        owners.stores += 1
    return owners


def let_go(owners: Owners, *, keeps_its_byte: bool) -> None:
    """A store was closed. With the last one the byte is given up, unless the process is to look alive until it ends."""
    with _registry_lock:
        owners.stores -= 1
        if owners.stores == 0 and not keeps_its_byte:
            for identity in [key for key, held in _registry.items() if held is owners]:
                del _registry[identity]
            owners.close()


def _identity_at(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return (-1, -1)
    return (status.st_dev, status.st_ino)


def _forget_after_fork() -> None:
    """The child holds none of its parent's locks: it takes a byte of its own when it opens a store."""
    global _registry_lock  # noqa: PLW0603 - it may have been held by a thread that does not exist here
    _registry_lock = threading.Lock()
    _registry.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
