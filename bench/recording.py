"""What recording a step costs beside a bare commit of the same bytes."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import apsw

import holdfast
from bench.measuring import Figure, interleaved_us

RESULT_BYTES = 4096


def figures(place: Path) -> Iterator[Figure]:
    """A ``read`` and a ``once`` step with a 4 KB result against a bare WAL/FULL insert-and-commit."""
    result = os.urandom(RESULT_BYTES // 2).hex()
    data = f'"{result}"'.encode()
    bare = _bare_table(place / "bare.db")
    numbers = count()

    def work(number: int) -> str:  # noqa: ARG001 - makes each call another one
        return result

    with holdfast.run("bench", store=place / "holdfast.db") as run:
        bare_us, read_us, once_us = interleaved_us(
            [
                lambda: bare.execute("INSERT INTO t (b) VALUES (?)", (data,)),
                lambda: run.step("read", work, next(numbers)),
                lambda: run.once("once", work, next(numbers)),
            ],
            rounds=60,
            block=25,
        )
    bare.close()
    facts = f"bare {bare_us:.0f} µs, read {read_us:.0f} µs, once {once_us:.0f} µs"
    yield Figure("read step, 4 KB result / bare commit", read_us / bare_us, 1.3, "×", facts)
    yield Figure("once step, 4 KB result / bare commit", once_us / bare_us, 2.0, "×", facts)


def _bare_table(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB)")
    return connection
