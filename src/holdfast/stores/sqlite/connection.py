"""Opens one connection: sets every setting that durability depends on, and reads it back.

It knows pragmas; it knows no table. The invariant: a connection that leaves this module has the settings
below, or an error was raised. SQLite ignores an unknown pragma silently, so setting alone proves nothing.
"""

import os
from typing import TYPE_CHECKING, Final, Literal

import apsw

from holdfast import limits
from holdfast.errors import NewerFormat, NotAStore, NotDurable
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from _typeshed import StrPath

APPLICATION_ID: Final = 0x484F4C44
"""'HOLD' in the file's header, so that ``file`` and we can recognise our databases."""
FORMAT_VERSION: Final = 2


def file_beside(module: str, name: str) -> str:
    """The path of a file in the directory of a module."""
    return os.path.join(os.path.dirname(module), name)


def statements_in(path: str) -> str:
    """The statements in a file of ours."""
    with open(path, encoding="utf-8") as file:
        return file.read()


class Shape(NamedTuple):
    """A kind of our files: by its header, and by its schema."""

    application_id: int
    version: int
    schema: str
    """The path of its file."""


STORE: Final = Shape(APPLICATION_ID, FORMAT_VERSION, file_beside(__file__, "schema.sql"))

SYNC_FULL: Final = 2
SYNC_NORMAL: Final = 1
_WAL_SIZE_BYTES_MAX: Final = 16_000_000

_WAL: Final = b"\2\2"
"""What the header says of a file that keeps a WAL."""

Role = Literal["synced", "flushed", "reading"]

SETTINGS: Final[dict[str, int | str]] = {
    "journal_mode": "wal",
    "busy_timeout": int(limits.BUSY_TIMEOUT_S * 1000),
    "foreign_keys": 1,
    "fullfsync": 1,  # macOS: fsync there does not reach the disk; elsewhere without effect
    "checkpoint_fullfsync": 1,
    "temp_store": 2,  # in memory: nothing of a run's content in /tmp
    "trusted_schema": 0,  # a file is data: its views may not call functions with side effects
    "cell_size_check": 1,  # notice damaged pages earlier
    "mmap_size": 0,  # a mapped read of a bad sector is a SIGBUS, not an error
    # ``database`` runs the checkpoints: SQLite's automatic ones would hide their errors
    "wal_autocheckpoint": 0,
    "journal_size_limit": _WAL_SIZE_BYTES_MAX,
}


def open_connection(path: "StrPath", role: Role, shape: Shape = STORE) -> apsw.Connection:
    """A connection to an existing file with its settings verified.

    May raise apsw.Error, NotDurable, NewerFormat.
    """
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        settle(connection, path, role)
        _check_identity(connection, path, shape)
    except BaseException:
        connection.close()
        raise
    return connection


def bring_to_wal(path: "StrPath", header: bytes, shape: Shape = STORE) -> None:
    """See that the file keeps a WAL. Called before the guard is taken. May raise apsw.Error.

    A change to WAL takes SQLite's exclusive lock. A store keeps a WAL from its beginning, but a foreign
    program may have changed that, or have died in the middle of it.
    """
    if header[18:20] != _WAL or os.path.exists(f"{path}-journal"):
        open_connection(path, "synced", shape).close()


def settle(connection: apsw.Connection, path: "StrPath", role: Role) -> None:
    """Set what the role needs and read each setting back."""
    wanted = dict(SETTINGS)
    wanted["synchronous"] = SYNC_FULL if role == "synced" else SYNC_NORMAL
    wanted["query_only"] = int(role == "reading")
    connection.set_busy_timeout(
        int(limits.BUSY_TIMEOUT_S * 1000)
    )  # first: the pragmas below may have to wait
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    # The last connection to close would delete the WAL. SQLite finds out which is last by locks, which may be
    # lost.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    for name, value in wanted.items():
        connection.execute(f"PRAGMA {name} = {value}")
    for name, value in wanted.items():
        found = connection.pragma(name)
        if found != value:
            raise NotDurable(
                store=str(path), problem=f"SQLite keeps {name} at {found!r} where {value!r} is needed"
            )


def check_version(version: int, path: "StrPath", shape: Shape = STORE) -> None:
    """Refuse a format that this code does not use: only a store is migrated from an earlier one."""
    if version > shape.version:
        raise NewerFormat(
            store=str(path),
            problem=f"its format is {version}; this Holdfast knows formats up to {shape.version}",
        )
    if shape is not STORE and version < shape.version:
        problem = f"its format is {version}, of an earlier Holdfast; this one uses {shape.version}"
        raise NotAStore(store=str(path), problem=problem)


def _check_identity(connection: apsw.Connection, path: "StrPath", shape: Shape) -> None:
    """Once more, through the WAL.

    The file's own header may not show yet what a newer Holdfast has changed.
    """
    if connection.pragma("application_id") != shape.application_id:
        raise NotAStore(store=str(path), problem="this SQLite database belongs to another application")
    check_version(connection.pragma("user_version"), path, shape)
