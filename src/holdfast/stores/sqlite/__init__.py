"""The store in one SQLite file. Everything that knows SQL or apsw is in this package, and nowhere else.

Read in this order: ``schema.sql`` (what lies on the disk), ``creation`` and ``connection`` (how a file is made
and opened), ``database`` (the three connections and who may use them), ``store`` (the port's verbs).
"""

from holdfast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
