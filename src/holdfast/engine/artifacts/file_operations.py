"""The file operations behind artifacts, one function each.

Nothing else of the library changes a run's files: whoever wants to see what a kill or a full disk does between two of
these operations replaces them.

A file is reached through its directory, held open, and the way there is walked name by name without following a link: a
link that somebody puts there after the path was judged leads nowhere. Where the system cannot do that (Windows), by path.
"""

# ruff: noqa: PTH102, PTH105, PTH116, PTH118 - file descriptors, and no pathlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from holdfast.stores.own_files import is_own_name, own_files

HAS_DIR_FD: Final = os.open in os.supports_dir_fd and os.mkdir in os.supports_dir_fd
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
_COMMON: Final = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ_BYTES: Final = 1_048_576
PERMISSIONS: Final = 0o777
"""What of a file's mode is ever given to another: no setuid, no setgid, no sticky bit."""

OPERATIONS: Final = ("make_directory", "create", "write", "sync", "rename", "sync_directory", "remove")
"""The functions here that change something."""


class Directory(NamedTuple):
    """A directory that is held open, and its path."""

    path: str
    fd: int | None

    def at(self, name: str) -> tuple[str, dict[str, Any]]:
        """How the system is told of a name in it."""
        return (os.path.join(self.path, name), {}) if self.fd is None else (name, {"dir_fd": self.fd})


@contextmanager
def directory(root: str, below: tuple[str, ...] = (), *, make: bool = False) -> Iterator[Directory]:
    """A directory below a root, for as long as the block lasts; ``make`` what is missing. OSError where a link is in the way."""
    held = open_directory(root, below, make=make)
    try:
        yield held
    finally:
        close_directory(held)


def open_directory(root: str, below: tuple[str, ...] = (), *, make: bool = False) -> Directory:
    """As ``directory``, for whoever lets it go later."""
    while make and not os.path.lexists(root):
        root, name = os.path.split(root)
        below = (name, *below)
    held = Directory(root, _open(root, _DIRECTORY) if HAS_DIR_FD else None)
    for name in below:
        if make and not _is_there(held, name):
            with suppress(FileExistsError):
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
    """Let a directory go."""
    if held.fd is not None:
        os.close(held.fd)


def find(held: Directory, name: str) -> os.stat_result | None:
    """What is known of a name in a directory, links as links; None where there is nothing."""
    path, where = held.at(name)
    try:
        return os.stat(path, **where, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_there(held: Directory, name: str) -> bool:
    return find(held, name) is not None


def open_to_read(held: Directory, name: str) -> int:
    """A file's descriptor. OSError where it is a link, or belongs to an open store."""
    path, where = held.at(name)
    refuse_store_file(held, name)
    # Not to wait for whoever writes into a pipe that has taken the file's place.
    return _open(path, _NOFOLLOW | getattr(os, "O_NONBLOCK", 0), **where)


def refuse_store_file(held: Directory, name: str) -> None:
    """OSError where a name is that of a file of an open store, or would be: to touch it harms the store."""
    found = find(held, name)
    is_one = found is not None and (found.st_dev, found.st_ino) in own_files()
    if is_one or is_own_name(held.path if held.fd is None else held.fd, name):
        raise OSError(errno.EBUSY, "it is a file of a store that is open here", os.path.join(held.path, name))


def read(fd: int) -> Iterator[bytes]:
    """A file's content from its beginning, piece by piece."""
    os.lseek(fd, 0, os.SEEK_SET)
    while piece := os.read(fd, _READ_BYTES):
        yield piece


def is_file(fd: int) -> bool:
    """Whether a descriptor is that of a plain file."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


# -- what changes something ----------------------------------------------------------------------------------------


def make_directory(held: Directory, name: str) -> None:
    """Make a directory in another."""
    path, where = held.at(name)
    os.mkdir(path, **where)


def create(held: Directory, name: str, mode: int | None = None, *, exactly: bool = False) -> int:
    """A new file to write, or whatever lay there emptied; with these permissions, or those that new files get here.

    Of ``mode`` only read, write and execute count: whoever runs a file is never made somebody else by it. The umask takes
    its part, unless they are to be ``exactly`` these.
    """
    path, where = held.at(name)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | _NOFOLLOW | _COMMON
    granted = 0o666 if mode is None else mode & PERMISSIONS
    fd = os.open(path, flags, granted, **where)
    if exactly and hasattr(os, "fchmod"):
        os.fchmod(fd, granted)
    return fd


def write(fd: int, data: Any) -> int:
    """Write some of the bytes; how many."""
    return os.write(fd, data)


def sync(fd: int) -> None:
    """What was written survives power loss when it returns."""
    os.fsync(fd)


def rename(held: Directory, name: str, to: str) -> None:
    """Give a file another name in its directory, in place of what had it."""
    path, _ = held.at(name)
    goal, _ = held.at(to)
    if held.fd is None:
        os.replace(path, goal)
    else:
        os.replace(path, goal, src_dir_fd=held.fd, dst_dir_fd=held.fd)


def sync_directory(held: Directory) -> None:
    """The names in it survive power loss when it returns."""
    if held.fd is not None:
        os.fsync(held.fd)


def remove(held: Directory, name: str) -> None:
    """Remove a file; nothing to do where there is none."""
    path, where = held.at(name)
    with suppress(FileNotFoundError):
        os.unlink(path, **where)


def _open(path: str, flags: int, **where: Any) -> int:
    return os.open(path, os.O_RDONLY | flags | _COMMON, **where)
