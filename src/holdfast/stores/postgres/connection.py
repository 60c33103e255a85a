"""Opens one connection: sets every setting that durability and order depend on, and reads it back.

It knows settings; it knows no table. The invariant: a connection that leaves this module commits
synchronously by default, or an error was raised. A transaction pooler lends a server session for one
transaction, so session settings do not last: there every transaction starts with them (``prelude``).
"""

import select
from functools import cached_property
from typing import Any, Final

import psycopg
from psycopg import sql as composing

from holdfast import limits
from holdfast.errors import NotDurable
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Append
from holdfast.stores.postgres.address import Address


class Posted(NamedTuple):
    """Items that were sent and are not answered yet, and of how many runs they are."""

    items: tuple[Append, ...]
    runs: int


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection, and what is known of it beyond libpq."""

    posted: Posted | None = None
    """What was sent on it and is not answered yet (``wire.append_pipeline``); then it is in pipeline mode."""

    @cached_property
    def prepared(self) -> set[bytes]:
        """The names of our own statements that are prepared on it (``wire.append_statements``)."""
        return set()

    @cached_property
    def readable(self) -> select.poll:
        """Waits until the server says something. A signal's handler runs meanwhile."""
        waiting = select.poll()
        waiting.register(self.pgconn.socket, select.POLLIN)
        return waiting


SERVER_VERSION_MIN: Final = 140_000
_PREPARE_AFTER: Final = 5


def settings_of(schema: str) -> dict[str, str]:
    """The settings of every session, or of every transaction."""
    return {
        "search_path": f"{schema}, pg_temp",
        "synchronous_commit": "on",
        "default_transaction_isolation": "read committed",
        "lock_timeout": f"{limits.BUSY_TIMEOUT_S:.0f}s",
        "statement_timeout": f"{limits.STATEMENT_TIMEOUT_S:.0f}s",
        "idle_in_transaction_session_timeout": f"{limits.STATEMENT_TIMEOUT_S:.0f}s",
        "client_encoding": "UTF8",
    }


def open_connection(address: Address, *, polls: bool) -> Connection:
    """A connection with its settings verified. May raise psycopg.Error, NotDurable."""
    options: dict[str, Any] = {
        "application_name": "holdfast",
        "connect_timeout": int(limits.CONNECT_TIMEOUT_S),
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(limits.STATEMENT_TIMEOUT_S * 1000),
        **address.conninfo,
    }
    connection = Connection.connect(autocommit=True, prepare_threshold=None, **options)
    try:
        if not polls:
            settle(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


def settle(connection: Connection, address: Address) -> None:
    """Set what a session of our own needs, and read each setting back."""
    connection.prepare_threshold = _PREPARE_AFTER
    wanted = settings_of(address.schema)
    names = list(wanted)
    connection.execute(
        composing.SQL("; ").join(
            composing.SQL("SELECT set_config({}, {}, false)").format(name, value)
            for name, value in wanted.items()
        )
    )
    shown = connection.execute(
        composing.SQL("SELECT {}").format(
            composing.SQL(", ").join(composing.SQL("current_setting({})").format(name) for name in names)
        )
    ).fetchone()
    assert shown is not None
    found = dict(zip(names, shown, strict=True))
    for name in ("synchronous_commit", "default_transaction_isolation", "search_path"):
        if found[name] != wanted[name]:
            raise NotDurable(
                store=address.url,
                problem=f"the server keeps {name} at {found[name]!r} where {wanted[name]!r} is needed",
                advice="let this user change that setting",
            )


def prelude(address: Address) -> composing.Composed:
    """The settings for one transaction, as one statement."""
    return composing.SQL("SELECT {}").format(
        composing.SQL(", ").join(
            composing.SQL("set_config({}, {}, true)").format(name, value)
            for name, value in settings_of(address.schema).items()
            if name not in {"default_transaction_isolation", "client_encoding"}
        )
    )


def is_pooled(connection: Connection) -> bool:
    """Whether a pooler is in between: the server process at connect time is not the one that answers."""
    found = connection.execute("SELECT pg_backend_pid()").fetchone()
    return found is not None and found[0] != connection.info.backend_pid
