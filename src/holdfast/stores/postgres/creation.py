"""Making the schema, or refusing the one that is there.

Knows ``schema.sql`` and its format version. The invariant: a schema is made whole, in one transaction and by one process
at a time (an advisory lock), so that a hundred processes may start at once; one that is not ours is left as it is.
"""

from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql as composing

from holdfast.errors import NewerFormat, NotAStore
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.connection import Connection

FORMAT_VERSION: Final = 1
_SCHEMA: Final = Path(__file__).with_name("schema.sql")
_EXISTS: Final = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
_TABLES: Final = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind IN ('r', 'v') ORDER BY 1"
)
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast:' || %s, 0))"


def ensure_schema(connection: Connection, address: Address) -> None:
    """See that a store is there. Durable when it returns; may raise psycopg.Error, NotAStore, NewerFormat."""
    if is_ours(connection, address):
        return
    with connection.transaction():
        connection.execute(LOCK, (address.schema,))
        if not is_ours(connection, address):
            _build(connection, address)


def is_ours(connection: Connection, address: Address) -> bool:
    """True for a store of ours, False where one is to be made; anything else raises."""
    tables = {row[0] for row in connection.execute(_TABLES, (address.schema,))}
    if not tables:
        return False
    if "meta" not in tables:
        raise _strange(
            address, f"the schema {address.schema} holds {', '.join(sorted(tables)[:3])} of somebody else"
        )
    try:
        found = connection.execute(
            composing.SQL("SELECT format FROM {}").format(composing.Identifier(address.schema, "meta"))
        ).fetchone()
    except psycopg.errors.UndefinedColumn as error:
        raise _strange(address, f"the schema {address.schema} belongs to another application") from error
    return _is_known(None if found is None else found[0], address)


def _is_known(version: Any, address: Address) -> bool:
    if not isinstance(version, int):
        raise _strange(address, f"the schema {address.schema} tells no format")
    if version > FORMAT_VERSION:
        raise NewerFormat(
            store=address.url,
            problem=f"its format is {version}; this Holdfast knows formats up to {FORMAT_VERSION}",
        )
    return True


def _build(connection: Connection, address: Address) -> None:
    """Inside a transaction that holds the lock."""
    schema = composing.Identifier(address.schema)
    # asked for before it is made: making one needs a right that using one that is there does not
    if connection.execute(_EXISTS, (address.schema,)).fetchone() is None:
        connection.execute(composing.SQL("CREATE SCHEMA {}").format(schema))
    connection.execute(composing.SQL("SET LOCAL search_path = {}").format(schema))
    connection.execute("SET LOCAL synchronous_commit = on")
    connection.execute(_SCHEMA.read_text(encoding="utf-8").encode())
    connection.execute("INSERT INTO meta VALUES (1, %s, 0)", (FORMAT_VERSION,))


def _strange(address: Address, problem: str) -> NotAStore:
    return NotAStore(store=address.url, problem=problem, advice="choose another schema: ?schema=name")
