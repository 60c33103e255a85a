"""Returns space to the file system and, if asked, removes all traces of deleted data from the files.

It knows free pages, VACUUM and the WAL. The invariant: every step has its own turn and transaction, so that
others can write in between, and a kill at any time leaves a sound store and some space to reclaim.
"""

import os
from typing import TYPE_CHECKING, Any, Final

import apsw

from holdfast.clock import SystemClock
from holdfast.errors import StoreBusy, StoreError
from holdfast.limits import BUSY_TIMEOUT_S
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.errors import translated_os
from holdfast.stores.sqlite.repair.rewrite_wal import wal_size
from holdfast.stores.sqlite.statements import FOLD_WAL, FREE_PAGES, REWRITE, SHRINK

if TYPE_CHECKING:
    from _typeshed import StrPath

    from holdfast.stores.sqlite.store import SqliteStore

_LOOK_MS: Final = 200
_PAUSE_S: Final = 0.05


def reclaimed(database: Database, *, thoroughly: bool) -> int:
    """See ``StorePort.reclaim``."""
    before = _size(database.path)
    if thoroughly:
        _step(database, REWRITE)
        database.heads.erase_notes()
    else:
        _free_pages_go(database)
    _truncate_wal(database)
    return max(0, before - _size(database.path))


def reclaimed_index(store: "SqliteStore", *, thoroughly: bool) -> int:
    """The same for the store's search index; a damaged one is removed completely."""
    try:
        index = store.find_index(makes=False)
        return index.reclaim(thoroughly=thoroughly) if index else 0
    except StoreBusy:  # a reader blocks it; another call continues
        raise
    except StoreError as error:
        if not store.drop_index(because=error):
            raise
        return 0


def _free_pages_go(database: Database) -> None:
    """In bounded steps: other processes get their turn in between."""
    free = _step(database, FREE_PAGES)[0][0]
    while free:
        _step(database, SHRINK)
        left = _step(database, FREE_PAGES)[0][0]
        if left >= free:  # others free pages too, and reclaim them themselves
            return
        free = left


def _truncate_wal(database: Database) -> None:
    """Checkpoint everything into the main file, and truncate the WAL.

    SQLite would wait for readers while holding the write lock; many short tries let the writers through.
    """
    deadline = SystemClock.monotonic() + BUSY_TIMEOUT_S
    while _step(database, FOLD_WAL, wait_ms=_LOOK_MS)[0][0]:
        if SystemClock.monotonic() > deadline:
            problem = (
                "some process has been reading it all the time, which keeps the space from being reclaimed"
            )
            raise StoreBusy(store=database.name, problem=problem)
        SystemClock.sleep(_PAUSE_S)


def _step(database: Database, statement: str, *, wait_ms: int = int(BUSY_TIMEOUT_S * 1000)) -> list[Any]:
    """One statement outside of any transaction, in its own turn; returns its answer."""
    with database.alone():
        connection = database.synced
        connection.set_busy_timeout(wait_ms)
        try:
            return connection.execute(statement).fetchall()
        except apsw.Error as error:
            raise database.translate(error, connection) from error
        finally:
            connection.set_busy_timeout(int(BUSY_TIMEOUT_S * 1000))


def _size(path: "StrPath") -> int:
    try:
        return os.stat(path).st_size + wal_size(path)
    except OSError as error:
        raise translated_os(error, path) from error
