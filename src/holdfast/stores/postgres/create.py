"""Creates the schema, migrates an earlier one to this format, or refuses a foreign one.

It knows ``schema.sql`` and its format version. The invariant: a schema is created or changed completely, in
one transaction and by one process at a time (an advisory lock), so that a hundred processes may start at
once; a foreign schema stays unchanged.
"""

import os
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql as composing

from holdfast.errors import NewerFormat, NotAStore, StoreBusy
from holdfast.model.store_rows import owner_name
from holdfast.stores import server_owners
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.row_checksums import meta_crc

FORMAT_VERSION: Final = 2
_SCHEMA: Final = Path(__file__).with_name("schema.sql")
VIEWS: Final = Path(__file__).with_name("views.sql")
_EXISTS: Final = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
_TABLES: Final = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'v') ORDER BY 1"
)
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast:' || %s, 0))"


# Rows stay as they are, and get their checksums when they are next written. An unchained event after chained
# ones would be damage: so there is no default, and appends of an older, still connected Holdfast are refused.
_ADDED: Final[tuple[LiteralString, ...]] = (
    "ALTER TABLE events ADD COLUMN chain bigint NOT NULL DEFAULT 0",
    "ALTER TABLE events ALTER COLUMN chain DROP DEFAULT",
    "ALTER TABLE runs ADD COLUMN crc bigint, ADD COLUMN status_crc bigint",
    "ALTER TABLE records ADD COLUMN crc bigint",
    "ALTER TABLE meta ADD COLUMN store text NOT NULL DEFAULT '', ADD COLUMN crc bigint",
    "ALTER TABLE meta ALTER COLUMN store DROP DEFAULT",
)
_HELD: Final = (
    "SELECT run, owner FROM runs WHERE owner <> '' AND beat_at + lease_s > extract(epoch "
    "FROM now()) ORDER BY run"
)


def ensure_schema(connection: Connection, address: Address) -> None:
    """Make sure that a store of this format exists. Durable on return.

    May raise psycopg.Error, NotAStore, NewerFormat; StoreBusy while an older Holdfast works in an earlier
    format.
    """
    if _format_of(connection, address) == FORMAT_VERSION:
        return
    with connection.transaction():
        connection.execute(LOCK, (address.schema,))
        found = _format_of(connection, address)
        if found is None:
            _build(connection, address)
        elif found < FORMAT_VERSION:
            _migrate(connection, address)


def is_ours(connection: Connection, address: Address) -> bool:
    """True for a store of ours, of this format or an earlier one, False if there is none.

    Anything else raises.
    """
    return _format_of(connection, address) is not None


def _format_of(connection: Connection, address: Address) -> int | None:
    tables = {row[0] for row in connection.execute(_TABLES, (address.schema,))}
    if not tables:
        return None
    if "meta" not in tables:
        raise _strange(
            address, f"the schema {address.schema} holds {', '.join(sorted(tables)[:3])} of another program"
        )
    try:
        found = connection.execute(
            composing.SQL("SELECT format FROM {}").format(composing.Identifier(address.schema, "meta"))
        ).fetchone()
    except psycopg.errors.UndefinedColumn as error:
        raise _strange(address, f"the schema {address.schema} belongs to another application") from error
    return _known(None if found is None else found[0], address)


def _known(version: Any, address: Address) -> int:
    if not isinstance(version, int):
        raise _strange(address, f"the schema {address.schema} tells no format")
    if version > FORMAT_VERSION:
        raise NewerFormat(
            store=address.url,
            problem=f"its format is {version}; this Holdfast knows formats up to {FORMAT_VERSION}",
        )
    return version


def _build(connection: Connection, address: Address) -> None:
    """Inside a transaction that holds the lock."""
    schema = composing.Identifier(address.schema)
    # check first: creating a schema needs a right that using an existing one does not
    if connection.execute(_EXISTS, (address.schema,)).fetchone() is None:
        connection.execute(composing.SQL("CREATE SCHEMA {}").format(schema))
    connection.execute(composing.SQL("SET LOCAL search_path = {}").format(schema))
    connection.execute("SET LOCAL synchronous_commit = on")
    for part in (_SCHEMA, VIEWS):
        connection.execute(part.read_text(encoding="utf-8").encode())
    store = os.urandom(16).hex()
    connection.execute(
        "INSERT INTO meta (id, format, fences, store, crc) VALUES (1, %s, 0, %s, %s)",
        (FORMAT_VERSION, store, meta_crc(store, 0)),
    )


def _migrate(connection: Connection, address: Address) -> None:
    """The same, all or nothing. A holder of a run with an earlier format knows no other."""
    connection.execute(
        composing.SQL("SET LOCAL search_path = {}").format(composing.Identifier(address.schema))
    )
    connection.execute("SET LOCAL synchronous_commit = on")
    for run, owner in connection.execute(_HELD).fetchall():
        if server_owners.probe(owner) != "dead":
            problem = f"an older Holdfast works on run {run} in it ({owner_name(owner)})"
            raise StoreBusy(
                store=address.url, problem=problem, advice="wait for it, or end it; then start again"
            )
    for statement in _ADDED:
        connection.execute(statement)
    ((fences,),) = connection.execute("SELECT fences FROM meta").fetchall()
    store = os.urandom(16).hex()
    connection.execute(
        "UPDATE meta SET format = %s, store = %s, crc = %s", (FORMAT_VERSION, store, meta_crc(store, fences))
    )
    connection.execute(VIEWS.read_text(encoding="utf-8").encode())


def _strange(address: Address, problem: str) -> NotAStore:
    return NotAStore(store=address.url, problem=problem, advice="choose another schema: ?schema=name")
