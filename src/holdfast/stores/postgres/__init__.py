"""The store in a PostgreSQL database. Only this package knows psycopg.

Read in this order: ``schema.sql`` (the tables), ``create`` and ``connection`` (how they are made and opened),
``connections`` (the pool, and what happens when a connection is lost), ``append`` (the hot path), ``store``
(the port's methods).
"""

from holdfast.stores.postgres.connections import is_there
from holdfast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "is_there"]
