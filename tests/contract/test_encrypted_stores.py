"""The shipped contract suite over encrypted stores: nothing above the seals sees a difference."""

import os
from pathlib import Path
from typing import ClassVar

import pytest
from tests.support.aws.server import table_for
from tests.support.damage import damage

from holdfast.model.events import Event
from holdfast.stores.dynamodb.store import DynamoStore
from holdfast.stores.encrypted.keys import StoreKeys
from holdfast.stores.encrypted.sealed_events import overhead_of
from holdfast.stores.encrypted.store import EncryptedStore
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.url import place_of
from holdfast.testing.store_contract import StoreContract

KEYS = StoreKeys([os.urandom(32), os.urandom(32)])


class Sealed(StoreContract):
    """A store around another one, whose sizes are those of sealed rows."""

    keys: ClassVar[StoreKeys] = KEYS

    def make_inner(self, directory: Path) -> StorePort:
        raise NotImplementedError

    def make_store(self, directory: Path) -> StorePort:
        return EncryptedStore(self.make_inner(directory), self.keys)

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        assert isinstance(store, EncryptedStore)
        damage(store.inner, what, *place)

    def stored_bytes(self, event: Event) -> int:
        return len(event.body) + overhead_of(event)

    def stored_blob_bytes(self, data: bytes) -> int:
        return len(self.keys.seal_blob("aa" * 32, data))


class TestEncryptedMemoryStore(Sealed):
    """In memory."""

    def make_inner(self, directory: Path) -> StorePort:
        return MemoryStore(str(directory))


class TestEncryptedSqliteStore(Sealed):
    """In one file."""

    def make_inner(self, directory: Path) -> StorePort:
        return SqliteStore(directory / "store" / "holdfast.db")


class TestEncryptedPostgresStore(Sealed):
    """On a server."""

    @pytest.fixture(autouse=True)
    def _place(self, postgres_url: str) -> None:
        self.place = place_of(postgres_url)

    def make_inner(self, directory: Path) -> StorePort:
        return PostgresStore(self.place.name, self.place.password)


class TestEncryptedDynamoStore(Sealed):
    """In a table."""

    def make_inner(self, directory: Path) -> StorePort:
        return DynamoStore(table_for(directory))
