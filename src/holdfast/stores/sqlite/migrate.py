"""From format 1 to format 2: chains, checksums of rows, and an id of the store.

A store of format 1 is read as it is, through views that stand before its tables and show what is missing as empty. It is
brought to this format with the first write, in one transaction: killed anywhere, it is of the one format or of the other.
Old rows stay unchanged; they get their checksums when they are written again.
"""

from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.stores.row_checksums import meta_crc
from holdfast.stores.sqlite.connection import STORE, Shape

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
VIEWS: Final = Path(__file__).with_name("views.sql")
"""What people ask a store by, as this version has it."""


def is_old(connection: apsw.Connection, shape: Shape) -> bool:
    """Whether the file is a store of an earlier format."""
    return shape is STORE and connection.pragma("user_version") < shape.version


def show_as_new(connection: apsw.Connection) -> None:
    """Let a connection read an old store by the statements of this format."""
    writes = connection.pragma("query_only")
    connection.execute(
        "PRAGMA query_only = 0"
    )  # nothing of the file is written: temporary views lie in memory
    for name, text in _SHOWN.items():
        connection.execute(f"CREATE TEMP VIEW {name} AS {text}")
    connection.execute(f"PRAGMA query_only = {writes}")


def show_as_is(connection: apsw.Connection) -> None:
    """And from then on the tables themselves: the store was brought to this format."""
    writes = connection.pragma("query_only")
    connection.execute("PRAGMA query_only = 0")
    for name in _SHOWN:
        connection.execute(f"DROP VIEW IF EXISTS temp.{name}")
    connection.execute(f"PRAGMA query_only = {writes}")


def migrate(connection: apsw.Connection) -> None:
    """Bring the store to this format, inside an open transaction; nothing is left to do where another process has."""
    if not is_old(connection, STORE):
        return
    for statement in _ADDED:
        connection.execute(statement)
    seal_meta(connection)
    connection.execute(VIEWS.read_text(encoding="utf-8"))
    connection.execute(f"PRAGMA user_version = {STORE.version}")


def seal_meta(connection: apsw.Connection) -> None:
    """Give what a store knows of itself its checksum."""
    rows: Any = connection.execute("SELECT store, fences FROM meta").fetchall()
    ((store, fences),) = rows
    connection.execute("UPDATE meta SET crc = ?", (meta_crc(store, fences),))
