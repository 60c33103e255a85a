"""Creates the file, or refuses an existing one.

It knows the file system and the header of a SQLite file. The invariant: a file at a store's path is either
not ours and stays unchanged, byte for byte, or it is a complete store. A store is built under another name
and moved into place, so that a half-made one is never visible: not to a second process, not after a crash.
"""

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import apsw

from holdfast.errors import NotAStore, NotDurable
from holdfast.stores.row_checksums import warn
from holdfast.stores.sqlite.acknowledged_heads import FIRST
from holdfast.stores.sqlite.connection import STORE, Shape, check_version, statements_in
from holdfast.stores.sqlite.file_system import NETWORK, filesystem_at
from holdfast.stores.sqlite.locks.file_locks import header_of
from holdfast.stores.sqlite.locks.guard import retire
from holdfast.stores.sqlite.locks.owners import Owners, owners_of
from holdfast.stores.sqlite.migrate import VIEWS, seal_meta

if TYPE_CHECKING:
    from _typeshed import StrPath

_MAGIC: Final = b"SQLite format 3\0"
_INCREMENTAL: Final = 2
_BESIDE: Final = ("-wal", "-shm", "-journal", "-search", "-search-wal", "-search-shm")

# Threads of one process: file locks do not keep them apart.
_creating = threading.Lock()


def ensure_store(path: "StrPath", shape: Shape = STORE, owners: Owners | None = None) -> None:
    """Make sure that a store exists at an absolute, resolved path.

    Durable on return. Raises OSError, apsw.Error.

    With another ``shape`` it is a file that belongs to a store; ``owners`` are those of that store.
    """
    _refuse_network(path)
    if _is_ours(path, shape):
        return
    _make_directory(os.path.dirname(path))
    with _creating, (owners or owners_of(path)).creating():
        if not _is_ours(path, shape):
            if shape is STORE and not os.path.exists(path):
                _forget_heads(path, owners or owners_of(path))
            _build(path, shape)


def sync_directory(directory: "StrPath") -> None:
    """Make the names in a directory survive power loss. Windows has no such call and does it by itself."""
    if os.name == "nt":
        return
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _refuse_network(path: "StrPath") -> None:
    kind = filesystem_at(path)
    if kind in NETWORK:
        raise NotDurable(store=str(path), problem=f"it lies on a {kind} file system")


def _is_ours(path: "StrPath", shape: Shape) -> bool:
    """True for a store of ours, False if one is to be made; anything else raises."""
    try:
        if os.stat(path).st_size == 0:
            return False
    except FileNotFoundError:
        return False
    if os.path.isdir(path):
        raise NotAStore(store=str(path), problem="it is a directory")
    header = header_of(path)
    if not header.startswith(_MAGIC):
        raise NotAStore(store=str(path), problem="the file is not a SQLite database")
    if int.from_bytes(header[68:72], "big") != shape.application_id:
        raise NotAStore(store=str(path), problem="this SQLite database belongs to another application")
    check_version(int.from_bytes(header[60:64], "big"), path, shape)
    return True


def _make_directory(directory: str) -> None:
    """Create the missing part of a directory, private to the user, and sync each name into its parent."""
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    _make_directory(parent)
    with suppress(FileExistsError):
        os.mkdir(directory, mode=0o700)
    sync_directory(parent)


def _forget_heads(path: "StrPath", owners: Owners) -> None:
    """A person deleted the store, to start again: the new one does not miss what the old one acknowledged."""
    if owners.size > FIRST:
        warn(f"{path} is gone, with all its runs; a new store is made in its place")
        owners.cut(FIRST)


def _build(path: "StrPath", shape: Shape) -> None:
    draft = f"{path}-new"
    # From a crashed attempt, or a deleted database: a stale WAL would be replayed into the new file.
    for leftover in (
        draft,
        *(f"{base}{end}" for base in (draft, path) for end in _BESIDE),
    ):
        with suppress(FileNotFoundError):
            os.unlink(leftover)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    connection = apsw.Connection(draft, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")  # only possible before the first table
        connection.execute("PRAGMA fullfsync = 1")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN")
        connection.execute(statements_in(shape.schema))
        if shape is STORE:
            seal_meta(connection)
            connection.execute(statements_in(VIEWS))
        connection.execute(f"PRAGMA application_id = {shape.application_id}")
        connection.execute(f"PRAGMA user_version = {shape.version}")
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = wal")
    finally:
        connection.close()
    retire(path)
    os.replace(draft, path)
    sync_directory(os.path.dirname(path))
