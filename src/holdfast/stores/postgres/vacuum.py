"""Returns space: VACUUM makes it reusable, VACUUM FULL rewrites every table and returns it to the system.

It has its own connection and no statement timeout, because it may take long. A table that is being rewritten
is locked; a caller that does not get it within the lock timeout gets StoreBusy, and may call again. The
server's write-ahead log, its archive and its backups keep deleted data for as long as their owner configured.
"""

from typing import Final

from psycopg import sql as composing

from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.connections import Database
from holdfast.stores.postgres.search.create import TABLES as INDEX_TABLES
from holdfast.stores.postgres.statements import SIZE, TABLES

_MADE: Final = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname = ANY(%s::text[]) AND c.relkind IN ('r', 'p')"
)


def reclaimed(database: Database, *, thoroughly: bool) -> int:
    """See ``StorePort.reclaim``."""
    verb = composing.SQL("VACUUM (FULL) {}" if thoroughly else "VACUUM {}")
    with database.own_connection() as connection:
        connection.execute("SET statement_timeout = 0")
        before = size_of(connection, database)
        made = {name for (name,) in connection.execute(_MADE, (database.address.schema, list(INDEX_TABLES)))}
        for table in (*TABLES, *(table for table in INDEX_TABLES if table in made)):
            connection.execute(verb.format(composing.Identifier(database.address.schema, table)))
        return max(0, before - size_of(connection, database))


def size_of(connection: Connection, database: Database) -> int:
    """The bytes of the schema's tables, with their indexes."""
    row = connection.execute(SIZE, (database.address.schema,)).fetchone()
    assert row is not None
    return int(row[0])
