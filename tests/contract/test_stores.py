"""The shipped contract suite over every store that is here."""

from pathlib import Path

import pytest
from tests.support.damage import damage

from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.url import place_of
from holdfast.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    """A peer, not a mock."""

    def make_store(self, directory: Path) -> StorePort:
        return MemoryStore(str(directory))

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        damage(store, what, *place)


class TestSqliteStore(StoreContract):
    """One file on a local disk."""

    def make_store(self, directory: Path) -> StorePort:
        return SqliteStore(directory / "store" / "holdfast.db")

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        damage(store, what, *place)


class TestPostgresStore(StoreContract):
    """A schema of a database, over a connection of our own."""

    options = ""

    @pytest.fixture(autouse=True)
    def _place(self, postgres_url: str) -> None:
        self.place = place_of(postgres_url + self.options)

    def make_store(self, directory: Path) -> StorePort:
        return PostgresStore(self.place.name, self.place.password)

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        damage(store, what, *place)


class TestPolledPostgresStore(TestPostgresStore):
    """The same without anything that outlives a transaction, as behind a pooler."""

    options = "&poll=1"
