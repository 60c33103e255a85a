"""The shipped contract suite over every store that is here."""

from pathlib import Path

from holdfast.stores.memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.contract import StoreContract


class TestMemoryStore(StoreContract):
    """A peer, not a mock."""

    def make_store(self, directory: Path) -> StorePort:
        return MemoryStore(str(directory))


class TestSqliteStore(StoreContract):
    """One file on a local disk."""

    def make_store(self, directory: Path) -> StorePort:
        return SqliteStore(directory / "store" / "holdfast.db")
