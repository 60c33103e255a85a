"""Creates the search index, or reads its form: tables beside the store's own, in its schema.

It knows ``index.sql`` and its format version, and the extension ``vector``. If the extension exists, or can
be created, the server compares vectors; otherwise they are stored as bytes and compared in this process. The
invariant: the index is created completely, in one transaction and by one process at a time. It is derived
data, so an older or broken one is recreated; the store's own tables and their format never change.
"""

from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql as composing

from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.connections import Database
from holdfast.stores.postgres.create import LOCK
from holdfast.stores.postgres.search.tsvector import steps

FORMAT_VERSION: Final = 1
TABLES: Final = ("search_documents", "search_vectors", "search_counts", "search_notes", "search_meta")
EXTENSION = "vector"
_FILE: Final = Path(__file__).with_name("index.sql")
_BYTES: Final = "bytea"
_HALVES: Final = "halfvec"
_COLUMN: Final = (
    "SELECT n.nspname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
    "JOIN pg_namespace n ON n.oid = t.typnamespace "
    "WHERE a.attrelid = to_regclass('search_vectors') AND a.attname = 'vector' AND NOT a.attisdropped"
)
_PLACE: Final = (
    "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
    "WHERE e.extname = %s AND has_schema_privilege(n.oid, 'USAGE') "
    "AND to_regtype(quote_ident(n.nspname) || '.halfvec') IS NOT NULL"
)
_AVAILABLE: Final = "SELECT 1 FROM pg_available_extensions WHERE name = %s"
_LOCK_EXTENSION: Final = "SELECT pg_advisory_xact_lock(hashtextextended('holdfast extension', 0))"
_DROP: Final = (
    f"DROP TABLE IF EXISTS {', '.join(TABLES)} CASCADE; DROP SEQUENCE IF EXISTS search_ids, search_numbers; "
    "DROP FUNCTION IF EXISTS search_times(tsvector, tsquery), search_times_phrase(tsvector, text[])"
)


class Shape(NamedTuple):
    """The form of an index: its format, and the schema of its vector type; None if vectors are bytes."""

    format: int
    extension: str | None


def is_made(connection: Connection) -> bool:
    """Whether there is an index, of any format."""
    return connection.execute("SELECT to_regclass('search_meta')").fetchone() != (None,)


def identity(connection: Connection) -> int | None:
    """The identity of an index: a recreated one is another."""
    found: tuple[Any, ...] | None = connection.execute(
        "SELECT to_regclass('search_documents')::oid"
    ).fetchone()
    return None if found is None or found[0] is None else int(found[0])


def drop_index(database: Database, lost: int | None, *, is_damaged: bool) -> None:
    """Remove an index; if it ``is_damaged``, only this one: another process may already have recreated it."""

    def drop(connection: Connection) -> None:
        connection.execute(LOCK, (database.address.schema,))
        if not is_damaged or lost is None or identity(connection) in (lost, None):
            connection.execute(_DROP)

    database.write(drop, synced=True)


def ensure_index(database: Database) -> Shape | None:
    """Make sure that an index exists; None if a newer Holdfast made it. AccessDenied if this user may not."""
    found = database.read(_shape)
    if found is None or found.format < FORMAT_VERSION:
        found = database.write(lambda connection: _ensured(connection, database.address.schema), synced=True)
    return found if found.format == FORMAT_VERSION else None


def _shape(connection: Connection) -> Shape | None:
    """The form of the existing index.

    None if there is none or it is broken: dropping the extension drops a column.
    """
    column = connection.execute(_COLUMN).fetchone()
    if column is None or not is_made(connection):
        return None
    row = connection.execute("SELECT format FROM search_meta").fetchone()
    if row is None:
        return None
    return Shape(row[0], None if column[1] == _BYTES else column[0])


def _ensured(connection: Connection, schema: str) -> Shape:
    connection.execute(LOCK, (schema,))
    found = _shape(connection)
    if found is not None and found.format >= FORMAT_VERSION:
        return found
    connection.execute(_DROP)
    extension = _extension(connection)
    type_ = (
        composing.SQL(_BYTES) if extension is None else composing.Identifier(extension, _HALVES)
    ).as_string(connection)
    text = _FILE.read_text(encoding="utf-8").replace("{vector}", type_)
    bounds = "{" + ",".join(map(repr, steps())) + "}"
    connection.execute(text.replace("{steps}", bounds).encode())
    connection.execute("INSERT INTO search_meta VALUES (1, %s)", (FORMAT_VERSION,))
    return Shape(FORMAT_VERSION, extension)


def _extension(connection: Connection) -> str | None:
    """The schema of the extension, created if possible; None if it is unavailable."""
    place: tuple[Any, ...] | None = connection.execute(_PLACE, (EXTENSION,)).fetchone()
    if place is None and connection.execute(_AVAILABLE, (EXTENSION,)).fetchone() is not None:
        connection.execute(_LOCK_EXTENSION)  # other stores of the database may be creating it
        try:
            with connection.transaction():
                # not in the schema of this store: other stores use it too, and this one may be dropped
                connection.execute(
                    composing.SQL("CREATE EXTENSION IF NOT EXISTS {} WITH SCHEMA public").format(
                        composing.Identifier(EXTENSION)
                    )
                )
        except psycopg.errors.Error as error:
            if error.sqlstate is None or error.sqlstate[:2] not in _CANNOT:
                raise
        place = connection.execute(_PLACE, (EXTENSION,)).fetchone()
    return None if place is None else str(place[0])


_CANNOT: Final = frozenset({"42", "3F", "0A", "23", "58"})
"""No permission, no such schema, not on this server, created concurrently, or its files are incomplete."""
