"""The store in one SQLite file. Only this package knows SQL for SQLite and apsw.

Read in this order: ``schema.sql`` (the tables), ``create`` and ``connection`` (how a file is made and
opened), ``database`` (the three connections and who may use them), ``store`` (the port's methods).
"""

from holdfast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
