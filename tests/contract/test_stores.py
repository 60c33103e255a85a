"""The shipped contract suite over every store that is here."""

from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.support.postgres.damage import damage

from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.url import place_of
from holdfast.testing.store_contract import StoreContract


def flipped(body: bytes) -> bytes:
    """One bit is another one."""
    return bytes([body[0] ^ 8]) + body[1:]


class TestMemoryStore(StoreContract):
    """A peer, not a mock."""

    def make_store(self, directory: Path) -> StorePort:
        return MemoryStore(str(directory))

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        assert isinstance(store, MemoryStore)
        tables = store._tables
        if what == "record":
            space, key = place
            record = tables.records[space][key]
            tables.records[space][key] = record._replace(body=flipped(record.body))
        else:
            row = tables.runs[place[0]]
            new = {"status": "finished"} if what == "status" else {"body": flipped(row.body)}
            tables.runs[row.run] = row._replace(**new)


class TestSqliteStore(StoreContract):
    """One file on a local disk."""

    def make_store(self, directory: Path) -> StorePort:
        return SqliteStore(directory / "store" / "holdfast.db")

    def damage(self, store: StorePort, what: str, *place: str) -> None:
        assert isinstance(store, SqliteStore)
        connection = apsw.Connection(str(store.path))
        if what == "record":
            body: Any = connection.execute("SELECT body FROM records WHERE space = ? AND key = ?", place).get
            connection.execute(
                "UPDATE records SET body = ? WHERE space = ? AND key = ?", (flipped(body), *place)
            )
        elif what == "status":
            connection.execute("UPDATE runs SET status = 'finished' WHERE run = ?", place)
        else:
            body = connection.execute("SELECT body FROM runs WHERE run = ?", place).get
            connection.execute("UPDATE runs SET body = ? WHERE run = ?", (flipped(body), *place))
        connection.close()


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
