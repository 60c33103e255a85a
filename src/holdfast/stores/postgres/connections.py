"""The connections of one open store: lent to one thread at a time, and replaced after a server restart.

A transaction that was lost before its commit was sent did not happen, and is repeated on a new connection; so
is one that the server aborted (a deadlock). If the commit may have arrived, only a self-guarding transaction
is repeated: an append finds its own events there and is refused, which its caller resolves by reading.
Everything else is StoreUnavailable: unknown.

The invariant: an idle connection is in no transaction, and only its borrower's thread uses a lent one.
"""

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import ForkedHandle, HandleClosed, StoreBusy, StoreError
from holdfast.stores.postgres import statements
from holdfast.stores.postgres.address import Address, address_of
from holdfast.stores.postgres.connection import (
    Connection,
    is_pooled,
    open_connection,
    prelude,
    settle,
)
from holdfast.stores.postgres.create import ensure_schema, is_ours
from holdfast.stores.postgres.errors import (
    is_lost,
    is_passing,
    is_starting,
    is_undone,
    translated,
)
from holdfast.stores.postgres.unsynced_commits import UnsyncedCommits
from holdfast.stores.postgres.wire.append_pipeline import ask_one, settled
from holdfast.stores.postgres.wire.append_requests import Request

T = TypeVar("T")
_PAUSE_S: Final = 0.05
_BEGIN: Final = b"BEGIN ISOLATION LEVEL READ COMMITTED"


class Stage:
    """How far a transaction has come, which decides what its loss means."""

    committing = False


class Database:
    """Connections, and the state between them. Internal to the package: ``store`` has the methods."""

    def __init__(self, address: Address) -> None:
        self.address: Final = address
        self.opened_by: Final = os.getpid()
        self.flushed: Final = UnsyncedCommits()
        self.is_closed = False
        self.polls = True  # until it is known: a pooler's sessions must not be changed
        self._idle: list[Connection] = []
        self._lent = self._waiting = 0
        """How many connections are lent, and how many threads wait for one."""
        self._is_up = False
        self._make_lock()
        _opened.add(self)
        connection = self._connect(None)
        try:
            self.polls = address.polls or is_pooled(connection)
            if not self.polls:
                settle(connection, address)
            ensure_schema(connection, address)
        except psycopg.Error as error:
            connection.close()
            raise self.translate(error) from error
        except BaseException:
            connection.close()
            raise
        self._prelude: Final = prelude(address).as_bytes(connection)
        self._idle.append(connection)

    @property
    def is_gone(self) -> bool:
        """Whether this handle is closed, or belongs to the parent of this process."""
        return self.is_closed or self.opened_by != os.getpid()

    # -- use -------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[Connection], T]) -> T:
        """The result of the work. It may be called again on another connection, and must change nothing."""
        return self.attempt(lambda connection, _: self._transacted(connection, work, None), repeatable=True)

    def write(self, work: Callable[[Connection], T], *, synced: bool) -> T:
        """The work as one transaction, committed at its end and rolled back by any exception.

        It may be called again, as long as nothing was committed.
        """

        def act(connection: Connection, stage: Stage) -> T:
            return self._transacted(connection, work, stage, synced=synced)

        try:
            return self.attempt(act, repeatable=False)
        finally:
            # Also after an error: the commit may have arrived.
            if not synced:
                self.flushed.add()

    def attempt(self, act: Callable[[Connection, Stage], T], *, repeatable: bool, settles: bool = True) -> T:
        """Lend a connection to the function, and again if that one was lost and a repetition is safe.

        Posted statements are answered first, unless the function does that.
        """
        deadline: float | None = None
        while True:
            stage = Stage()
            connection = self._take(deadline)
            is_calm = False
            try:
                if settles and connection.posted:
                    self.flushed.keep(*settled(connection))
                result = act(connection, stage)
                is_calm = True
            except psycopg.DataError as error:
                if error.sqlstate is None:  # it could not even be sent: an error of this caller only
                    raise ValueError(str(error)) from error
                raise self.translate(error) from error
            except psycopg.Error as error:
                lost, undone = is_lost(error, connection), is_undone(error)
                # Lost before its commit was sent, a transaction did not happen. Later, only a self-guarding
                # one is safe to repeat.
                again = undone or (lost and (repeatable or not stage.committing))
                now = SystemClock.monotonic()
                if lost and deadline is None:
                    self.drop_idle()  # they come from the same server
                deadline = now + limits.BUSY_TIMEOUT_S if deadline is None else deadline
                if not again or now > deadline:
                    raise self.translate(error) from error
            else:
                return result
            finally:
                self._give_back(connection, is_calm=is_calm)

    def ask_at_once(self, request: Request) -> PGresult | None:
        """The reply to a prepared request that may be repeated, without the layers of ``attempt``.

        None: nothing is known, and ``attempt`` does it, from the beginning. Only in the ``line``.
        """
        if self.is_closed or self.opened_by != os.getpid():
            self._refuse()
        with self._mutex:
            connection = self._idle[-1] if self._idle else None
            if (
                connection is None
                or connection.posted is not None
                or request.statement.name not in connection.prepared
            ):
                return None
            self._idle.pop()
            self._lent += 1
        is_calm = False
        try:
            reply = ask_one(connection, request, keep=self.flushed.keep)
            is_calm = True
        except psycopg.Error as error:
            if isinstance(error, psycopg.DataError) and error.sqlstate is None:
                raise ValueError(str(error)) from error  # as in ``attempt``
            lost = is_lost(error, connection)
            if not lost and not is_undone(error):
                raise self.translate(error) from error
            if lost:
                self.drop_idle()
            return None
        else:
            return reply
        finally:
            self._give_back(connection, is_calm=is_calm)

    def sync(self) -> None:
        """Make flushed commits survive power loss; writes nothing if nothing was flushed."""
        self.check()
        if self.flushed.any:
            mark = self.flushed.mark()
            self.write(lambda connection: connection.execute(statements.MARK), synced=True)
            self.flushed.cover(mark)

    def close(self) -> None:
        """Sync what was flushed, then release the connections; idempotent."""
        if self.is_gone:
            return
        try:
            self.sync()
        finally:
            with self._mutex:
                self.is_closed = True
                self._freed.notify_all()
            self.drop_idle()

    def check(self) -> None:
        """Refuse if this handle was closed or came through a fork."""
        if self.is_gone:
            self._refuse()

    def translate(self, error: Exception) -> StoreError:
        address = self.address
        return translated(
            error, address.url, schema=address.schema, user=address.user, database=address.database
        )

    @contextmanager
    def own_connection(self) -> Iterator[Connection]:
        """A connection besides the lent ones, for long work. Errors are mapped."""
        self.check()
        try:
            with open_connection(self.address, polls=self.polls) as connection:
                yield connection
        except psycopg.Error as error:
            raise self.translate(error) from error

    # -- transactions ----------------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        """Start a transaction."""
        for statement in self.beginning():
            connection.execute(statement)

    def beginning(self) -> tuple[bytes, ...]:
        """The statements that start a transaction, with its settings if the session has none of its own."""
        return (_BEGIN, self._prelude) if self.polls else (_BEGIN,)

    def _transacted(
        self,
        connection: Connection,
        work: Callable[[Connection], T],
        stage: Stage | None,
        *,
        synced: bool = True,
    ) -> T:
        if stage is None and not self.polls:
            return work(connection)
        self.begin(connection)
        if not synced:
            connection.execute("SET LOCAL synchronous_commit = off")
        result = work(connection)
        if stage is not None:
            stage.committing = True
        connection.execute("COMMIT")
        return result

    # -- lend ------------------------------------------------------------------------------------------------

    def _take(self, deadline: float | None) -> Connection:
        self.check()  # before the lock: in a forked child a thread that does not exist there may hold it
        with self._mutex:
            if not self._idle and self._lent >= limits.CONNECTIONS_MAX:
                self._wait_for_idle()
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect(deadline)
        except BaseException:
            with self._mutex:
                self._lent -= 1
                self._freed.notify()  # whether one waits or not: this is rare
            raise

    def _wait_for_idle(self) -> None:
        """Wait until a connection is returned, or one may be opened. Only under the lock."""
        until = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S
        while not self._idle and self._lent >= limits.CONNECTIONS_MAX:
            self._waiting += 1
            try:
                is_freed = self._freed.wait(until - SystemClock.monotonic())
            finally:
                self._waiting -= 1
            if not is_freed:
                raise StoreBusy(
                    store=self.address.url,
                    problem=f"all {limits.CONNECTIONS_MAX} connections of this process are in use",
                    advice="the server answers slowly, or many threads ask it at once: start again",
                )
            self.check()

    def _give_back(self, connection: Connection, *, is_calm: bool) -> None:
        """Return a connection to the pool.

        If its user was interrupted, it is rolled back first, or closed.
        """
        if not is_calm:
            if not connection.posted:
                _calm(connection)
            elif connection.closed:
                self.flushed.keep(*connection.posted.items)  # its result will never be read
        with self._mutex:
            self._lent -= 1
            if not (self.is_closed or (not is_calm and connection.closed)):
                # A connection with a posted statement is on top: the next user reads the reply first.
                is_covered = self._idle and self._idle[-1].posted
                self._idle.insert(len(self._idle) - bool(is_covered), connection)
            elif not connection.closed:
                connection.close()
            if self._waiting:
                self._freed.notify()

    def _connect(self, deadline: float | None) -> Connection:
        """A new connection. If the server was there before, wait for it to come back."""
        until = SystemClock.monotonic() + limits.BUSY_TIMEOUT_S if deadline is None else deadline
        while True:
            try:
                connection = open_connection(self.address, polls=self.polls)
            except psycopg.Error as error:
                waits = isinstance(error, psycopg.OperationalError) and (
                    is_passing(error) if self._is_up else is_starting(error)
                )
                if not waits or SystemClock.monotonic() > until:
                    raise self.translate(error) from error
            else:
                self._is_up = True
                return connection
            SystemClock.sleep(_PAUSE_S)
            self.check()

    def drop_idle(self) -> None:
        """Close idle connections; they are opened again when needed."""
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection in idle:
            if connection.posted:
                try:
                    self.flushed.keep(*settled(connection))
                except psycopg.Error:
                    self.flushed.keep(*connection.posted.items)
            connection.close()

    def _refuse(self) -> NoReturn:
        if self.opened_by != os.getpid():
            raise ForkedHandle(
                what=f"store {self.address.url}", opened_by=self.opened_by, used_by=os.getpid()
            )
        raise HandleClosed(what=f"store {self.address.url}")

    # -- fork ------------------------------------------------------------------------------------------------

    def _make_lock(self) -> None:
        self._mutex = threading.Lock()
        self._freed = threading.Condition(self._mutex)
        self.line = threading.Lock()
        """Held by a thread that posts, or that sends after a post: one at a time, so that order is kept."""

    def disown(self) -> None:
        """In a forked child: the connections belong to the parent and stay open.

        psycopg does not close them here.
        """
        self._make_lock()
        _inherited.extend(self._idle)
        self._idle = []


def is_there(name: str, password: str | None = None) -> bool:
    """Whether the store of a URL exists. Raises what opening it would."""
    address = address_of(name, password)
    try:
        with open_connection(address, polls=True) as connection:  # nothing here depends on settings
            return is_ours(connection, address)
    except psycopg.Error as error:
        raise translated(
            error, address.url, schema=address.schema, user=address.user, database=address.database
        ) from error


_opened: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Connection] = []
"""Kept, so that nothing finalizes them in a child."""


def _calm(connection: Connection) -> None:
    """Roll back any open transaction; close the connection if that fails."""
    try:
        if not connection.closed and connection.pgconn.transaction_status != TransactionStatus.IDLE:
            # not through psycopg, which would drop all prepared statements on the server
            connection.pgconn.exec_(b"ROLLBACK")
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.close()
    except psycopg.Error:
        connection.close()


def _disown_after_fork() -> None:
    for database in tuple(_opened):
        database.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_after_fork)


@atexit.register
def _tidy_at_exit() -> None:
    """Most programs never close their store. Only syncs: other exit handlers may still record something."""
    for database in tuple(_opened):
        if not database.is_gone:
            database.drop_idle()
