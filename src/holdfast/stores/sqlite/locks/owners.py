"""The side file of a store: which processes are alive, the writers' turn, and whether the WAL can be trusted.

Each process holds one locked byte of it while it lives. Obtainable means dead: the kernel releases the lock
however the process ends, also for an unreaped zombie, also in another PID namespace. An owner reads
``pid@host/offset.inode``: process and host for people, byte and file for a prober. If the file is not the one
that the owner locked, nothing can be proven.

A process takes other bytes for a moment: one to make the store, one to open it, to write to it or to fold its
WAL (SQLite's own locks cannot do that: they vanish when the program reads the store's directory). The first
byte of the content says that a sync of the WAL has failed and that it was not written again since. It is
never synced, because after a power cut there is nothing left to be suspicious of. The second byte is the
format of the content. Behind them lie the acknowledged heads of the runs, see ``acknowledged_heads``.

The invariant: this process has one descriptor per side file, and closes it only with its last store there and
only if it holds no run.
"""

import os
import platform
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import HandleClosed, NewerFormat, StoreBusy
from holdfast.model.store_rows import Liveness
from holdfast.stores.ending_process import alive_or_ending
from holdfast.stores.sqlite.locks.bytelock import Byte, byte_at, open_lock_file, others

if TYPE_CHECKING:
    from _typeshed import StrPath

_CREATION_BYTE: Final = 0
_OFFSET_BITS: Final = 62
_STORE_BYTE: Final = 1 << _OFFSET_BITS
_SEARCH_BYTE: Final = _STORE_BYTE + 1
_CLOSED: Final = -1
_sync_content: Final = getattr(os, "fdatasync", os.fsync)
"""Of bytes that replace others: the file system need not commit its journal for the time of the change."""
_POLL_S: Final = 0.01
_SUSPECT: Final = b"S"
_FORMAT_AT: Final = 1
_FORMAT: Final = 0
"""Of this file's content: what a later Holdfast changes in it, it says there."""
_FOREIGN_AT: Final = 8
_FOREIGN_BYTES: Final = 8
_OWNER: Final = re.compile(r"\d+@[^/]*/(?P<offset>[0-9a-f]{1,16})\.(?P<inode>\d+)")
_HOST_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


class Owners:
    """The side file of one store in this process: its own byte, and probes of others'."""

    def __init__(self, fd: int, path: "StrPath") -> None:
        self.fd = fd
        self._path = path
        self.stores = 0
        """How many open stores of this process rely on the lock."""
        self._inode = os.fstat(fd).st_ino
        self._offset, self._own = self._hold_a_byte()
        host = _HOST_UNSAFE.sub("-", platform.node())
        self.name: Final = f"{os.getpid()}@{host}/{self._offset:x}.{self._inode}"

    # -- liveness --------------------------------------------------------------------------------------------

    def probe(self, owner: str) -> Liveness:
        """Whether the process of an owner of this store lives; never blocks."""
        if owner == self.name:
            return "alive"
        found = _OWNER.fullmatch(owner)
        # Another file at this path has none of the locks of the owner's file, so it proves nothing.
        if found is None or int(found["inode"]) != self._inode or not self._is_in_place():
            return "unknown"
        offset = int(found["offset"], 16)
        if offset == _CREATION_BYTE or offset >= 1 << _OFFSET_BITS:
            return "unknown"
        try:
            return alive_or_ending(owner) if self._byte(offset).is_taken() else "dead"
        except OSError:
            return "unknown"

    def is_older_alive(self) -> bool:
        """Whether a process with an older Holdfast has the store open.

        It knows only format 1 and other locks.
        """
        return any(others(self.fd, 1, _STORE_BYTE - 1))

    @property
    def is_alone(self) -> bool:
        """Whether no other process is seen to have the store open."""
        return next(others(self.fd, 1, _STORE_BYTE - 1), None) is None

    # -- the turn --------------------------------------------------------------------------------------------

    def turn(self, *, of_search: bool = False) -> Byte:
        """The byte to lock before opening, writing or checkpointing: of the store, or of its search index."""
        return self._byte(_SEARCH_BYTE if of_search else _STORE_BYTE)

    @contextmanager
    def creating(self) -> Iterator[None]:
        """Let one process at a time create the database file. The caller serializes its own threads."""
        byte = self._byte(_CREATION_BYTE)
        deadline = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
        while not byte.try_lock():
            if SystemClock.monotonic() > deadline:
                raise StoreBusy(
                    store=str(self._path), problem="another process is creating it and does not finish"
                )
            SystemClock.sleep(_POLL_S)
        try:
            yield
        finally:
            byte.unlock()
            byte.close()

    # -- trust in the WAL ------------------------------------------------------------------------------------

    @property
    def is_suspect(self) -> bool:
        """Whether some process saw a failed sync, and no process has rewritten the WAL since."""
        return self.read(1, 0) == _SUSPECT

    def suspect(self, *, is_so: bool) -> None:
        """Record or clear that for the next process. If the disk refuses the write, it is not recorded."""
        self.write(_SUSPECT if is_so else b"\0", 0)

    # -- the owner of a foreign log --------------------------------------------------------------------------

    @property
    def brought_by(self) -> int | None:
        """The user whose log was brought into the database, and who is not the one that opened it."""
        found = int.from_bytes(self.read(_FOREIGN_BYTES, _FOREIGN_AT), "little")
        return found - 1 if found else None

    def note_brought(self, uid: int | None) -> None:
        """Before the database is opened, say whose log it finds, if another's: afterwards nothing tells."""
        if uid is not None:
            self.write((uid + 1).to_bytes(_FOREIGN_BYTES, "little"), _FOREIGN_AT)

    # -- other content of the file ---------------------------------------------------------------------------

    def read(self, size: int, offset: int) -> bytes:
        """The bytes there; fewer at the end of the file. HandleClosed if the last store was closed."""
        try:
            return os.pread(self.fd, size, offset)
        except OSError:
            if self.fd == _CLOSED:
                raise HandleClosed(what=f"store {str(self._path).removesuffix('-owners')}") from None
            raise

    def write(self, data: bytes, offset: int) -> None:
        """Write there, unsynced; does nothing if the disk refuses."""
        with suppress(OSError):
            os.pwrite(self.fd, data, offset)

    def erase(self, places: Iterable[tuple[int, int]]) -> None:
        """Write zeros over any content there, of a size at an offset; they survive a power cut on return.

        One sync for all places, none where there is no content. May raise OSError.
        """
        written = False
        for size, offset in places:
            if os.pread(self.fd, size, offset).strip(b"\0"):
                os.pwrite(self.fd, bytes(size), offset)
                written = True
        if written:
            _sync_content(self.fd)

    @property
    def size(self) -> int:
        """How many bytes stand in the file."""
        return os.fstat(self.fd).st_size

    def cut(self, size: int) -> None:
        """Cut the file after this many bytes; that survives a power cut on return. May raise OSError."""
        os.ftruncate(self.fd, size)
        os.fsync(self.fd)

    # -- the rest --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the byte, and with it every lock on the file."""
        self._own.close()
        fd, self.fd = self.fd, _CLOSED  # before the number can be another file's
        os.close(fd)

    def _byte(self, offset: int) -> Byte:
        return byte_at(str(self._path), self.fd, offset)

    def _hold_a_byte(self) -> tuple[int, Byte]:
        while True:
            # Random over a large range: a reused offset would make its dead owner look alive.
            offset = int.from_bytes(os.urandom(8), "big") >> (64 - _OFFSET_BITS) or 1
            byte = self._byte(offset)
            if byte.try_lock():
                return offset, byte

    def _is_in_place(self) -> bool:
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False


_registry: dict[tuple[int, int], Owners] = {}
_registry_lock = threading.Lock()


def owners_of(database: "StrPath") -> Owners:
    """This process's entry in the side file of a store, shared by all its handles. May raise OSError."""
    path = f"{database}-owners"
    with _registry_lock:
        held = _registry.get(_identity_at(path))
        if held is not None:
            return held
        fd = open_lock_file(path)
        _check_format(fd, database)
        status = os.fstat(fd)
        return _registry.setdefault((status.st_dev, status.st_ino), Owners(fd, path))


def _check_format(fd: int, database: "StrPath") -> None:
    """NewerFormat if this version cannot read what stands in the side file; it is closed then.

    Closing it drops no lock: this process has none there, or the file would be in the registry.
    """
    found = int.from_bytes(os.pread(fd, 1, _FORMAT_AT), "little")
    if found > _FORMAT:
        os.close(fd)
        raise NewerFormat(
            store=str(database),
            problem=f"the format of its -owners file is {found}; this Holdfast knows formats up to {_FORMAT}",
        )


def hold(database: "StrPath") -> Owners:
    """The owners of a database, for a store that is opened now."""
    owners = owners_of(database)
    with _registry_lock:
        owners.stores += 1
    return owners


def let_go(owners: Owners, *, keeps_its_byte: bool) -> None:
    """A store was closed.

    The last one releases the byte, unless the process must look alive until it ends.
    """
    with _registry_lock:
        owners.stores -= 1
        if owners.stores == 0 and not keeps_its_byte:
            for identity in [key for key, held in _registry.items() if held is owners]:
                del _registry[identity]
            owners.close()


def _identity_at(path: "StrPath") -> tuple[int, int]:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return (-1, -1)
    return (status.st_dev, status.st_ino)


def _forget_after_fork() -> None:
    """A forked child takes its own byte when it opens a store.

    With its parent's it would make that one look alive.
    """
    global _registry_lock  # noqa: PLW0603 - it may have been held by a thread that does not exist here
    _registry_lock = threading.Lock()
    for owners in _registry.values():
        owners.close()
    _registry.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
