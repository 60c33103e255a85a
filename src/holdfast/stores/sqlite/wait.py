"""Waits until a run has changed: woken by this process's own commits, polling for those of others.

It knows ``PRAGMA data_version``, which changes whenever any other connection commits and costs a few
microseconds. It reads nothing else until then.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.clock import SystemClock
from holdfast.model.store_rows import Cursor, Cursors, inbox_space
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.locks.reread import reread
from holdfast.stores.sqlite.statements import DATA_VERSION, STANDING

_POLL_S: Final = 0.02


def wait_for_change(database: Database, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
    """See ``StorePort.wait``. A run that does not exist has the cursor (0, 0, 0)."""
    deadline = SystemClock.monotonic() + timeout_s
    seen = -1
    with _waiter(database):
        while True:
            seen, moved = _look(database, cursors, seen)
            if moved:
                return moved
            left_s = deadline - SystemClock.monotonic()
            if left_s <= 0:
                return frozenset()
            with database.moved:
                database.moved.wait(min(left_s, _POLL_S))


@reread
def _look(database: Database, cursors: Cursors, seen: int) -> tuple[int, frozenset[str]]:
    """The version of the data, and the runs that have moved since; none if the version is the one seen."""
    with database.read() as connection:
        version: int = connection.execute(DATA_VERSION).get
        if version == seen:
            return seen, frozenset()
        standing = {run: connection.execute(STANDING, (run, inbox_space(run))).fetchone() for run in cursors}
    return version, frozenset(run for run in cursors if Cursor(*(standing[run] or (0, 0))) != cursors[run])


@contextmanager
def _waiter(database: Database) -> Iterator[None]:
    with database.moved:
        database.waiters += 1
    try:
        yield
    finally:
        with database.moved:
            database.waiters -= 1
