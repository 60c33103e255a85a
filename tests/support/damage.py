"""One bit of what a store keeps, changed behind its back; see ``holdfast.testing.store_rules.damage``."""

from typing import Any

import apsw

from holdfast.stores.encrypted.store import EncryptedStore
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.port import StorePort
from holdfast.stores.sqlite import SqliteStore


def damage(store: StorePort, what: str, *place: str) -> None:
    """Of a record, a run or a run's status."""
    if isinstance(store, EncryptedStore):
        if what == "record":
            place = (place[0], store._records.stored_key(*place))
        damage(store.inner, what, *place)
    elif isinstance(store, MemoryStore):
        _in_memory(store, what, *place)
    elif isinstance(store, SqliteStore):
        _in_sqlite(store, what, *place)
    elif store.url.startswith("postgresql"):
        _in_postgresql(store, what, *place)
    else:
        _in_dynamodb(store, what, *place)


def _flipped(body: bytes) -> bytes:
    return bytes([body[0] ^ 8]) + body[1:]


def _in_memory(store: MemoryStore, what: str, *place: str) -> None:
    shelf = store._tables
    if what == "record":
        space, key = place
        record = shelf.records[space][key]
        shelf.records[space][key] = record._replace(body=_flipped(record.body))
    else:
        row = shelf.runs[place[0]]
        new = {"status": "finished"} if what == "status" else {"body": _flipped(row.body)}
        shelf.runs[row.run] = row._replace(**new)


def _in_sqlite(store: SqliteStore, what: str, *place: str) -> None:
    connection = apsw.Connection(str(store.path))
    if what == "record":
        body: Any = connection.execute("SELECT body FROM records WHERE space = ? AND key = ?", place).get
        connection.execute(
            "UPDATE records SET body = ? WHERE space = ? AND key = ?", (_flipped(body), *place)
        )
    elif what == "status":
        connection.execute("UPDATE runs SET status = 'finished' WHERE run = ?", place)
    else:
        body = connection.execute("SELECT body FROM runs WHERE run = ?", place).get
        connection.execute("UPDATE runs SET body = ? WHERE run = ?", (_flipped(body), *place))
    connection.close()


def _in_postgresql(store: StorePort, what: str, *place: str) -> None:
    from holdfast.stores.postgres import PostgresStore

    assert isinstance(store, PostgresStore)
    bit = "body = set_bit(body, 8, 1 - get_bit(body, 8))"
    change = f"UPDATE runs SET {bit} WHERE run = %s"
    if what == "status":
        change = "UPDATE runs SET status = 'finished' WHERE run = %s"
    elif what == "record":
        change = f"UPDATE records SET {bit} WHERE space = %s AND key = %s"
    store._database.write(lambda connection: connection.execute(change, place), synced=True)


def _in_dynamodb(store: StorePort, what: str, *place: str) -> None:
    from holdfast.stores.dynamodb.store import DynamoStore
    from holdfast.stores.dynamodb.table.actions import update
    from holdfast.stores.dynamodb.table.keys import record_key, row_key

    assert isinstance(store, DynamoStore)
    key = record_key(*place) if what == "record" else row_key(*place)
    item = store._table.get(key)
    assert item is not None
    change = "SET #status = :new" if what == "status" else "SET #body = :new"
    new = "finished" if what == "status" else _flipped(item["body"])
    assert store._table.update(update(key, change, new=new))
