"""From format 1 to format 2: chains, checksums of rows, and an id of the store.

A store of format 1 is read unchanged, through temporary views that hide its tables and show missing columns
as empty. The first write migrates it, in one transaction: a kill leaves the one format or the other. Old rows
stay unchanged; they get their checksums when they are next written.
"""

from typing import Any, Final

import apsw

from holdfast.stores.row_checksums import meta_crc
from holdfast.stores.sqlite.connection import STORE, Shape, file_beside, statements_in

_ADDED: Final = (
    "ALTER TABLE events ADD COLUMN chain INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN crc INTEGER",
    "ALTER TABLE runs ADD COLUMN status_crc INTEGER",
    "ALTER TABLE records ADD COLUMN crc INTEGER",
    "ALTER TABLE meta ADD COLUMN store TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE meta ADD COLUMN crc INTEGER",
    "UPDATE meta SET store = lower(hex(randomblob(16)))",
)
# A name without a schema means the one in temp first.
_SHOWN: Final = {
    "events": "SELECT id, run, seq, at, kind, name, key, fence, body, crc, 0 AS chain FROM main.events",
    "runs": "SELECT *, NULL AS crc, NULL AS status_crc FROM main.runs",
    "records": "SELECT *, NULL AS crc FROM main.records",
    "meta": "SELECT *, '' AS store, NULL AS crc FROM main.meta",
}
VIEWS: Final = file_beside(__file__, "views.sql")
"""The views for people, in this version."""


def is_old(connection: apsw.Connection, shape: Shape) -> bool:
    """Whether the file is a store of an earlier format."""
    return shape is STORE and connection.pragma("user_version") < shape.version


def show_as_new(connection: apsw.Connection) -> None:
    """Let a connection read an old store with the statements of this format."""
    writes = connection.pragma("query_only")
    connection.execute(
        "PRAGMA query_only = 0"
    )  # nothing is written to the file: temporary views are in memory
    for name, text in _SHOWN.items():
        connection.execute(f"CREATE TEMP VIEW {name} AS {text}")
    connection.execute(f"PRAGMA query_only = {writes}")


def show_as_is(connection: apsw.Connection) -> None:
    """Drop the temporary views: the store was migrated."""
    writes = connection.pragma("query_only")
    connection.execute("PRAGMA query_only = 0")
    for name in _SHOWN:
        connection.execute(f"DROP VIEW IF EXISTS temp.{name}")
    connection.execute(f"PRAGMA query_only = {writes}")


def migrate(connection: apsw.Connection) -> None:
    """Migrate the store, inside an open transaction; does nothing if another process has done it."""
    if not is_old(connection, STORE):
        return
    for statement in _ADDED:
        connection.execute(statement)
    seal_meta(connection)
    connection.execute(statements_in(VIEWS))
    connection.execute(f"PRAGMA user_version = {STORE.version}")


def seal_meta(connection: apsw.Connection) -> None:
    """Write the checksum of the store's own data."""
    rows: Any = connection.execute("SELECT store, fences FROM meta").fetchall()
    ((store, fences),) = rows
    connection.execute("UPDATE meta SET crc = ?", (meta_crc(store, fences),))
