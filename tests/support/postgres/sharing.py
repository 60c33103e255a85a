"""One server for all the processes of a test session: the first starts it, the last to leave stops it.

``HOLDFAST_TEST_POSTGRES_URL`` names another server instead; a database of it in which schemas may be made.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql as composing
from tests.support.postgres.server import Server

ENVIRONMENT = "HOLDFAST_TEST_POSTGRES_URL"


@contextmanager
def shared_url(session: str) -> Iterator[str]:
    """The URL of this session's server. A server that cannot be had is a failure and never a skipped test."""
    given = os.environ.get(ENVIRONMENT)
    book = Path(tempfile.gettempdir()) / f"holdfast-pg-session-{session}.json"
    url = given or _enter(book)
    try:
        yield url
    finally:
        for connection in _connections.values():
            connection.close()
        _connections.clear()
        if not given:
            _leave(book)


def new_schema() -> str:
    return f"t_{uuid4().hex[:16]}"


def drop_schema(url: str, schema: str) -> None:
    """With those that a test has made beside it, under longer names."""
    connection = _connections.get(url)
    if connection is None or connection.closed:
        connection = _connections[url] = psycopg.connect(url, autocommit=True)
    found = connection.execute(
        "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (schema,)
    ).fetchall()
    for (name,) in found:
        connection.execute(composing.SQL("DROP SCHEMA {} CASCADE").format(composing.Identifier(name)))


_connections: dict[str, psycopg.Connection[tuple[Any, ...]]] = {}
"""Kept for the session: one for each of two thousand tests is a process of the server each time."""


@contextmanager
def _open(book: Path) -> Iterator[dict[str, object]]:
    while True:
        with book.open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The last to leave takes it away: whoever waited for the lock until then has a book that nobody finds again.
            if not book.exists() or os.fstat(file.fileno()).st_ino != book.stat().st_ino:
                continue
            file.seek(0)
            told = json.loads(file.read() or "{}")
            yield told
            file.seek(0)
            file.truncate()
            file.write(json.dumps(told))
            return


def _enter(book: Path) -> str:
    with _open(book) as told:
        if not told.get("users"):
            server = Server.started()
            told.update(url=server.url(), directory=str(server.directory), port=server.port, users=0)
        told["users"] = int(str(told["users"])) + 1
        return str(told["url"])


def _leave(book: Path) -> None:
    with _open(book) as told:
        told["users"] = int(str(told["users"])) - 1
        if not told["users"]:
            Server(Path(str(told["directory"]))).remove()
            book.unlink()
