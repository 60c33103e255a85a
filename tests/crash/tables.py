"""The bare tables of a case's store, read without Holdfast: SQLite by apsw, PostgreSQL by psycopg, DynamoDB by boto3.

What an encrypted one has can be read by nobody else: it is opened by the port, and by nothing above that.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import apsw
import boto3
import psycopg
from psycopg.conninfo import make_conninfo

from holdfast.limits import EVENT_PAGE_MAX, RECORD_PAGE_MAX, RUN_PAGE_MAX
from holdfast.stores.encryption_mark import with_keys
from holdfast.stores.port import StorePort
from holdfast.stores.sqlite import SqliteStore


class RunRow(NamedTuple):
    """What is needed of a run's row."""

    id: Any
    run: str
    status: str


class Tables(Protocol):
    """What a judge asks a store; one class a kind of store."""

    def runs(self) -> list[RunRow]:
        """Every run, in order of name."""
        ...

    def events(self, run: RunRow) -> list[tuple[int, str, str, str, bytes]]:
        """seq, kind, name, key and body of a run's own events, in order."""
        ...

    def record_keys(self, space: str) -> list[str]:
        """The keys of a space."""
        ...

    def blob(self, address: str) -> bytes:
        """What is kept under an address."""
        ...


@contextmanager
def bare_tables(url: str) -> Iterator[Tables]:
    """The tables behind a store's URL."""
    if os.environ.get("HOLDFAST_KEY"):
        port = with_keys(SqliteStore(url.removeprefix("sqlite:///")))
        try:
            yield _Sealed(port)
        finally:
            port.close()
        return
    if url.startswith("sqlite:///"):
        file = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            yield _Sql(lambda statement, *values: file.execute(statement, values).fetchall())
        finally:
            file.close()
        return
    if url.startswith("dynamodb://"):
        yield _Items(url)
        return
    server, _, schema = url.partition("?schema=")
    with psycopg.connect(make_conninfo(server, options=f"-c search_path={schema}"), autocommit=True) as there:
        yield _Sql(lambda statement, *values: there.execute(statement.replace("?", "%s"), values).fetchall())


class _Sql:
    """Both have the same columns."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def runs(self) -> list[RunRow]:
        return [RunRow(*row) for row in self._ask("SELECT id, run, status FROM runs ORDER BY run")]

    def events(self, run: RunRow) -> list[tuple[int, str, str, str, bytes]]:
        found = self._ask("SELECT seq, kind, name, key, body FROM events WHERE run = ? ORDER BY seq", run.id)
        return [(seq, kind, name, key, bytes(body)) for seq, kind, name, key, body in found]

    def record_keys(self, space: str) -> list[str]:
        return [str(key) for (key,) in self._ask("SELECT key FROM records WHERE space = ?", space)]

    def blob(self, address: str) -> bytes:
        ((data,),) = self._ask("SELECT data FROM blobs WHERE address = ?", address)
        return bytes(data)


class _Sealed:
    """A SQLite file whose key is in the environment."""

    def __init__(self, port: StorePort) -> None:
        self._port = port

    def runs(self) -> list[RunRow]:
        rows = sorted(self._port.list_runs(limit=RUN_PAGE_MAX), key=attrgetter("run"))
        return [RunRow(row, row.run, row.status) for row in rows]

    def events(self, run: RunRow) -> list[tuple[int, str, str, str, bytes]]:
        found = self._port.read_events(run.run, after_seq=run.id.origin_seq, limit=EVENT_PAGE_MAX)
        assert len(found) < EVENT_PAGE_MAX, "an agent of the matrix records nothing that long"
        return [(event.seq, event.kind, event.name, event.key, event.body) for event in found]

    def record_keys(self, space: str) -> list[str]:
        return [record.key for record in self._port.scan_records(space, limit=RECORD_PAGE_MAX)]

    def blob(self, address: str) -> bytes:
        return self._port.get_blobs([address])[address]


class _Items:
    """One table, whose partitions tell what an item is; all of it at once, since a case's store is small."""

    def __init__(self, url: str) -> None:
        from tests.support.aws.server import REGION, endpoint

        client = boto3.client("dynamodb", region_name=REGION, endpoint_url=endpoint())
        table = urlsplit(url).netloc
        pages = client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
        found = [item for page in pages for item in page["Items"]]
        client.close()
        plain = [{key: next(iter(value.values())) for key, value in item.items()} for item in found]
        self._items = {(item["pk"], item["sk"]): item for item in plain}

    def runs(self) -> list[RunRow]:
        rows = [item for (_, sk), item in sorted(self._items.items()) if sk == "row" and "gone" not in item]
        return [RunRow(row["journal"], row["pk"].removeprefix("run/"), row["status"]) for row in rows]

    def events(self, run: RunRow) -> list[tuple[int, str, str, str, bytes]]:
        return [
            (int(sk), item["kind"], item["name"], item["key"], _body(item))
            for (pk, sk), item in sorted(self._items.items())
            if pk == f"log/{run.id}"
        ]

    def record_keys(self, space: str) -> list[str]:
        return [sk[1:] for pk, sk in sorted(self._items) if pk == f"space/{space}"]

    def blob(self, address: str) -> bytes:
        return _body(self._items[f"blob/{address[0]}", address])


def _body(item: dict[str, Any]) -> bytes:
    assert "stage" not in item, "an agent of the matrix records nothing that long"
    return bytes(item["body"])
