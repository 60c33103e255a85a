"""Waits until a run has changed: woken by the server's notifications, and polling slowly.

Writers notify only about runs that are waited for, since a notification takes a lock that all commits of the
server share; so a waiter first registers what it waits for. A missed notification (the writer had looked just
before, the connection was lost) costs one polling interval and nothing else. Behind a pooler listening is
impossible: there the polling is faster.

One thread listens for all waiters of a store. It starts with the first, and ends after a while without
waiters.
"""

import threading
from typing import Final

import psycopg
from psycopg import sql as composing

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import HoldfastError
from holdfast.model.store_rows import Cursor, Cursors
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.connections import Database

_WANTED_S: Final = 60.0
_SLICE_S: Final = 0.2
_LINGER_S: Final = 5.0


class Waiting:
    """What one store's waiters share: the listening thread, and the registered runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._heard = threading.Condition()
        self._news = 0
        self._waiters = 0
        self._wanted_until: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self._listens = False

    def wait_for_change(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        """See ``StorePort.wait``. A run that does not exist has the cursor (0, 0, 0)."""
        database = self._database
        deadline = SystemClock.monotonic() + timeout_s
        moved = self._moved(cursors)
        if moved or timeout_s <= 0:
            return moved
        self._enter()
        try:
            while True:
                news = self._news
                if not database.polls:
                    self._want(cursors)
                moved = self._moved(cursors)  # after registering: earlier changes were not notified
                left_s = deadline - SystemClock.monotonic()
                if moved or left_s <= 0:
                    return moved
                look_s = limits.LISTEN_LOOK_S if self._listens else limits.POLL_S
                with self._heard:
                    if self._news == news and not database.is_gone:
                        self._heard.wait(min(left_s, look_s))
                database.check()
        finally:
            with self._heard:
                self._waiters -= 1

    def wake_here(self) -> None:
        """Something was committed through this handle: wake its waiters without the server."""
        if self._waiters:
            self.wake()

    def wake(self) -> None:
        """Make every waiter check."""
        with self._heard:
            self._news += 1
            self._heard.notify_all()

    def close(self) -> None:
        """The store is closed: wake the waiters and end the thread."""
        self.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(limits.BUSY_TIMEOUT_S)

    def _moved(self, cursors: Cursors) -> frozenset[str]:
        names = list(cursors)
        rows = self._database.read(lambda c: c.execute(sql.STANDING, (names,)).fetchall())
        standing = {run: Cursor(*where) for run, *where in rows}
        return frozenset(run for run in cursors if standing[run] != cursors[run])

    def _want(self, cursors: Cursors) -> None:
        now = SystemClock.monotonic()
        new = [run for run in cursors if self._wanted_until.get(run, 0.0) < now]
        if not new:
            return

        def want(connection: Connection) -> None:
            connection.execute(sql.UNWANT)
            connection.execute(sql.WANT, (_WANTED_S, new))

        self._database.write(want, synced=False)
        for run in [run for run, until in self._wanted_until.items() if until < now]:
            del self._wanted_until[run]
        self._wanted_until.update(dict.fromkeys(new, now + _WANTED_S / 2))

    # -- listen ----------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        with self._heard:
            self._waiters += 1
            if self._thread is None and not self._database.polls:
                self._thread = threading.Thread(target=self._listen, name="holdfast-listener", daemon=True)
                self._thread.start()

    def _listen(self) -> None:
        idle_since = SystemClock.monotonic()
        channel = composing.Identifier(self._database.address.schema)
        while True:
            try:
                with self._database.own_connection() as connection:
                    connection.execute(composing.SQL("LISTEN {}").format(channel))
                    self._listens = True
                    self.wake()  # earlier notifications were missed
                    while not self._is_over(idle_since):
                        for _ in connection.notifies(timeout=_SLICE_S, stop_after=1):
                            self.wake()
                        if self._waiters:
                            idle_since = SystemClock.monotonic()
                    return
            except Exception as error:
                if not isinstance(error, (HoldfastError, psycopg.Error)):
                    from logging import (
                        getLogger,
                    )  # loaded with the first word, since it doubles the import time

                    getLogger("holdfast").warning(
                        "cannot listen to %s", self._database.address.url, exc_info=error
                    )
                self._listens = False
            if self._is_over(idle_since):
                return
            SystemClock.sleep(_SLICE_S)

    def _is_over(self, idle_since: float) -> bool:
        with self._heard:
            idle = not self._waiters and SystemClock.monotonic() - idle_since > _LINGER_S
            if not (idle or self._database.is_gone):
                return False
            self._thread = None
            self._listens = False
            return True
