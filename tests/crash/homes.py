"""Where the stores of a crash matrix are, and what stands in them, read without Holdfast's code.

A home makes the URL of a case's store from the case's directory, always the same one, and reads its bare tables. A store
on a server joins the matrix with a home of its own: see ``test_matrix_dynamodb.py``.
"""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw
import boto3


class Told(NamedTuple):
    """What bare tables tell of one run: events as (seq, kind, name, key, body), and the keys of the letters left."""

    run: str
    status: str
    events: list[tuple[Any, ...]]
    letters: list[str]


class Tables(NamedTuple):
    """What lies in a store: its runs in order of their ids, and contents by address."""

    runs: list[Told]
    blobs: dict[str, bytes]


class Home(Protocol):
    """A kind of store."""

    def url(self, directory: Path) -> str:
        """A new store for a case."""
        ...

    def read(self, directory: Path) -> Tables:
        """What lies in it."""
        ...


class Files:
    """SQLite, in a file in the case's directory."""

    def url(self, directory: Path) -> str:
        return f"sqlite:///{directory / 'holdfast.db'}"

    def read(self, directory: Path) -> Tables:
        with closing(apsw.Connection(str(directory / "holdfast.db"))) as connection:
            blobs = connection.execute("SELECT address, data FROM blobs").fetchall()
            return Tables(list(self._runs(connection)), dict(blobs))  # type: ignore[arg-type]

    def _runs(self, connection: apsw.Connection) -> Iterator[Told]:
        for id_, run, status in connection.execute(
            "SELECT id, run, status FROM runs ORDER BY run"
        ).fetchall():
            events = connection.execute(
                "SELECT seq, kind, name, key, body FROM events WHERE run = ? ORDER BY seq", (id_,)
            ).fetchall()
            letters = connection.execute(
                "SELECT key FROM records WHERE space = ?", (f"inbox/{run}",)
            ).fetchall()
            yield Told(str(run), str(status), events, [str(key) for (key,) in letters])


class DynamoTables:
    """A DynamoDB table each."""

    def url(self, directory: Path) -> str:
        from tests.aws.server import table_for

        return table_for(self._name(directory)).url

    def read(self, directory: Path) -> Tables:
        from tests.aws.server import REGION, endpoint

        client = boto3.client("dynamodb", region_name=REGION, endpoint_url=endpoint())
        pages = client.get_paginator("scan").paginate(TableName=self._name(directory), ConsistentRead=True)
        items = [
            {key: _plain(value) for key, value in item.items()} for page in pages for item in page["Items"]
        ]
        client.close()
        by_place = {(item["pk"], item["sk"]): item for item in items}
        rows = [
            by_place[place]
            for place in sorted(by_place)
            if place[1] == "row" and "gone" not in by_place[place]
        ]
        blobs = {sk: _body(item) for (pk, sk), item in by_place.items() if pk.startswith("blob/")}
        return Tables([_told(row, by_place) for row in rows], blobs)

    @staticmethod
    def _name(directory: Path) -> str:
        return f"crash-{hashlib.sha256(str(directory).encode()).hexdigest()[:32]}"


def _told(row: dict[str, Any], items: dict[tuple[str, str], dict[str, Any]]) -> Told:
    run = row["pk"].removeprefix("run/")
    events = [
        (int(sk), item["kind"], item["name"], item["key"], _body(item))
        for (pk, sk), item in sorted(items.items())
        if pk == f"log/{row['journal']}"
    ]
    letters = [sk[1:] for pk, sk in sorted(items) if pk == f"space/inbox/{run}"]
    return Told(run, row["status"], events, letters)


def _body(item: dict[str, Any]) -> bytes:
    assert "stage" not in item, "an agent of the matrix records nothing that long"
    return bytes(item["body"])


def _plain(typed: dict[str, Any]) -> Any:
    ((_, value),) = typed.items()
    return value
