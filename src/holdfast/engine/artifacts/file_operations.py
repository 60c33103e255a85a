"""The file operations behind artifacts, one function each.

No other module changes a run's files. A test replaces these functions to kill a process between two of them.

Invariant: a file is reached through an open descriptor of its directory, which was opened name by name
without following links. So a link that another process creates after the path was checked is refused. Windows
cannot do that; there the path is used.
"""

# ruff: noqa: PTH102, PTH105, PTH116, PTH118 - file descriptors, and no pathlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.own_files import is_own_name, own_files

HAS_DIR_FD: Final = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
_COMMON: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ_BYTES: Final = 1_048_576
PERMISSIONS: Final = 0o777
"""The part of a file's mode that a copy may get: no setuid, no setgid, no sticky bit."""

OPERATIONS: Final = ("make_directory", "create", "write", "sync", "rename", "sync_directory", "remove")
"""The functions here that change files."""


class Directory(NamedTuple):
    """An open directory, and its path. Without a descriptor where the system has no ``dir_fd``."""

    path: str
    fd: int | None

    def at(self, name: str) -> tuple[str, dict[str, Any]]:
        """The path and the keyword arguments with which ``os`` functions reach a name in it."""
        return (os.path.join(self.path, name), {}) if self.fd is None else (name, {"dir_fd": self.fd})


@contextmanager
def directory(root: str, below: tuple[str, ...] = (), *, make: bool = False) -> Iterator[Directory]:
    """An open directory below a root, for the block; ``make`` creates missing ones. OSError at a link."""
    held = open_directory(root, below, make=make)
    try:
        yield held
    finally:
        close_directory(held)


def open_directory(root: str, below: tuple[str, ...] = (), *, make: bool = False) -> Directory:
    """As ``directory``, for a caller that closes it later."""
    # The nearest existing directory is the root to walk from.
    while make and not os.path.lexists(root):
        root, name = os.path.split(root)
        below = (name, *below)
    held = Directory(root, _open(root, _DIRECTORY) if HAS_DIR_FD else None)
    for name in below:
        if make and not _is_there(held, name):
            with suppress(FileExistsError):  # another process was faster
                make_directory(held, name)
            sync_directory(held)
        path, where = held.at(name)
        try:
            fd = None if held.fd is None else _open(path, _DIRECTORY | _NOFOLLOW, **where)
        finally:
            close_directory(held)
        held = Directory(os.path.join(held.path, name), fd)
    return held


def close_directory(held: Directory) -> None:
    """Close a directory."""
    if held.fd is not None:
        os.close(held.fd)


def find(held: Directory, name: str) -> os.stat_result | None:
    """The status of a name in a directory, without following a link; None where there is nothing."""
    path, where = held.at(name)
    try:
        return os.stat(path, **where, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_there(held: Directory, name: str) -> bool:
    return find(held, name) is not None


def open_to_read(held: Directory, name: str) -> int:
    """A descriptor to read a file. OSError where it is a link, or belongs to an open store."""
    path, where = held.at(name)
    refuse_store_file(held, name)
    # Non-blocking: if a pipe has replaced the file, a plain open would wait for its writer.
    return _open(path, _NOFOLLOW | getattr(os, "O_NONBLOCK", 0), **where)


def refuse_store_file(held: Directory, name: str) -> None:
    """OSError where a name is, or would be, a file of an open store.

    Closing a descriptor of such a file drops the locks that SQLite holds on it in this process.
    """
    found = find(held, name)
    is_one = found is not None and (found.st_dev, found.st_ino) in own_files()
    if is_one or is_own_name(held.path if held.fd is None else held.fd, name):
        raise OSError(errno.EBUSY, "it is a file of a store that is open here", os.path.join(held.path, name))


def read(fd: int) -> Iterator[bytes]:
    """The content of a file from its start, piece by piece."""
    os.lseek(fd, 0, os.SEEK_SET)
    while piece := os.read(fd, _READ_BYTES):
        yield piece


def is_file(fd: int) -> bool:
    """Whether a descriptor is one of a plain file."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


# -- what changes something ----------------------------------------------------------------------------------


def make_directory(held: Directory, name: str) -> None:
    """Create a directory in an open one."""
    path, where = held.at(name)
    os.mkdir(path, **where)


def create(held: Directory, name: str, mode: int | None = None, *, exactly: bool = False) -> int:
    """A descriptor to write a new or emptied file, with the permissions ``mode``, or the default ones.

    Only the read, write and execute bits of ``mode`` count: a copied file must not run as another user. The
    umask applies unless ``exactly`` is true.
    """
    path, where = held.at(name)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | _NOFOLLOW | _COMMON
    granted = 0o666 if mode is None else mode & PERMISSIONS
    fd = os.open(path, flags, granted, **where)
    if exactly and hasattr(os, "fchmod"):
        os.fchmod(fd, granted)
    return fd


def write(fd: int, data: Any) -> int:
    """Write some of the bytes. Returns how many."""
    return os.write(fd, data)


def sync(fd: int) -> None:
    """Sync a file: what was written survives power loss on return."""
    os.fsync(fd)


def rename(held: Directory, name: str, to: str) -> None:
    """Rename a file within its directory, over any file with the new name."""
    path, _ = held.at(name)
    target, _ = held.at(to)
    if held.fd is None:
        os.replace(path, target)
    else:
        os.replace(path, target, src_dir_fd=held.fd, dst_dir_fd=held.fd)


def sync_directory(held: Directory) -> None:
    """Sync a directory: its names survive power loss on return. Windows has no such call."""
    if held.fd is not None:
        os.fsync(held.fd)


def remove(held: Directory, name: str) -> None:
    """Remove a file, if it exists."""
    path, where = held.at(name)
    with suppress(FileNotFoundError):
        os.unlink(path, **where)


def _open(path: str, flags: int, **where: Any) -> int:
    return os.open(path, os.O_RDONLY | flags | _COMMON, **where)
