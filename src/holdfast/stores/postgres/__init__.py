"""The store in a PostgreSQL database. Everything that knows psycopg is in this package, and nowhere else.

Read in this order: ``schema.sql`` (what lies in the database), ``creation`` and ``connection`` (how that is made and
opened), ``database`` (the connections, and what happens when one is lost), ``appending`` (the hot path), ``store`` (the
port's verbs).
"""

from holdfast.stores.postgres.connections import is_there
from holdfast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "is_there"]
