"""Giving space back to the file system, and, when asked, seeing that nothing deleted is left in the files.

Knows free pages, VACUUM and the WAL. It has a connection of its own, since it waits for readers in a way of its own,
and takes the lock of this process's writers for each step, so that they wait instead of finding the file busy. The
invariant: every step is a transaction, so that a kill at any moment leaves a sound store and some space to reclaim.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.clock import SystemClock
from holdfast.errors import StoreBusy
from holdfast.limits import BUSY_TIMEOUT_S
from holdfast.stores.sqlite.connection import STORE, Shape, open_connection
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.errors import translated, translated_os
from holdfast.stores.sqlite.statements import FOLD_WAL, FREE_PAGES, REWRITE, SHRINK

_LOOK_MS: Final = 200
_PAUSE_S: Final = 0.05


def reclaimed(database: Database, *, thoroughly: bool, shape: Shape = STORE) -> int:
    """See ``StorePort.reclaim``."""
    with database.writing:
        if database.trouble:  # a checkpoint must not trust a WAL that a failed sync has left behind
            database.mend()
    before = _size(database.path)
    with _connection(database, shape) as connection:
        if thoroughly:
            _step(database, connection, REWRITE)
        else:
            _free_pages_go(database, connection)
        _fold_wal(database, connection)
    return max(0, before - _size(database.path))


@contextmanager
def _connection(database: Database, shape: Shape) -> Iterator[apsw.Connection]:
    try:
        connection = open_connection(database.path, "synced", shape)
    except apsw.Error as error:
        raise translated(error, database.path) from error
    try:
        yield connection
    finally:
        connection.close()


def _free_pages_go(database: Database, connection: apsw.Connection) -> None:
    """In bounded steps: other processes get their turn in between."""
    free = connection.execute(FREE_PAGES).get
    while free:
        _step(database, connection, SHRINK)
        left = connection.execute(FREE_PAGES).get
        if left >= free:  # others free pages too: what is left is theirs
            return
        free = left


def _fold_wal(database: Database, connection: apsw.Connection) -> None:
    """Everything into the main file, and the WAL to nothing.

    SQLite would wait for readers with the write lock in its hands; many short looks let the writers through.
    """
    connection.set_busy_timeout(_LOOK_MS)
    deadline = SystemClock.monotonic() + BUSY_TIMEOUT_S
    while _step(database, connection, FOLD_WAL)[0][0]:
        if SystemClock.monotonic() > deadline:
            problem = (
                "some process has been reading it all the time, which keeps the space from being reclaimed"
            )
            raise StoreBusy(store=database.name, problem=problem)
        SystemClock.sleep(_PAUSE_S)


def _step(database: Database, connection: apsw.Connection, statement: str) -> list[Any]:
    """One statement, alone among this process's writers; its answer."""
    with database.writing:
        if database.trouble:
            database.mend()
        try:
            return connection.execute(statement).fetchall()
        except apsw.Error as error:
            raise database.translate(error, connection) from error


def _size(path: Path) -> int:
    wal = path.with_name(path.name + "-wal")
    try:
        return path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)
    except OSError as error:
        raise translated_os(error, path) from error
