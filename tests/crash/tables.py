"""The bare tables of a case's store, read without Holdfast: SQLite by apsw, PostgreSQL by psycopg."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import apsw
import psycopg
from psycopg.conninfo import make_conninfo


class RunRow(NamedTuple):
    """What is needed of a run's row."""

    id: int
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
    if url.startswith("sqlite:///"):
        file = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            yield _Sql(lambda statement, *values: file.execute(statement, values).fetchall())
        finally:
            file.close()
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
