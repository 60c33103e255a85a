"""The floor of many async runs: the same tasks, rows and commits, and nothing else.

Each task awaits the function, puts the two rows of its step into a queue, and waits for a commit. One thread takes the queue
once a tick and writes it by one ``executemany``. No fence, head, checksum, identity or replay; the bodies are texts.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw

_TABLE = (
    "CREATE TABLE events (id INTEGER PRIMARY KEY, at REAL, kind TEXT, name TEXT, key TEXT, fence INTEGER, body BLOB, "
    "crc INTEGER, chain INTEGER)"
)
_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INTENT = b'{"effect":"read","in":"","after":"0123456789abcdef.1","path":1234567890}\n{"args":{"number":3}}'
_OUTCOME = b'{"ms":0.001}\n{"value":3}'


class _Writer:
    """A queue, and the thread that commits it."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._connection.execute(_TABLE)
        self._queue: list[tuple[tuple[Any, ...], asyncio.Future[None]]] = []
        self._threads = ThreadPoolExecutor(1)
        self._ticks = False

    def put(self, values: tuple[Any, ...]) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.append((values, future))
        if not self._ticks:
            self._ticks = True
            loop.call_soon(self._tick, loop)
        return future

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._queue, self._ticks = self._queue, [], False
        self._threads.submit(self._commit, batch, loop)

    def _commit(self, batch: list[Any], loop: asyncio.AbstractEventLoop) -> None:
        with self._connection:
            self._connection.executemany(f"INSERT INTO events VALUES {_ROW}, {_ROW}", (b[0] for b in batch))
        loop.call_soon_threadsafe(_answer, [future for _, future in batch])

    def close(self) -> None:
        self._threads.shutdown()
        self._connection.close()


def _answer(futures: "list[asyncio.Future[None]]") -> None:
    for future in futures:
        future.set_result(None)


def rate(
    path: Path,
    runs: int,
    steps: int,
    work: Callable[[int], Coroutine[Any, Any, int]],
    clock: Callable[[], float],
) -> float:
    """Steps a second by this clock."""

    async def one(number: int) -> None:
        first = number << 32
        for step in range(steps):
            await work(step)
            at, key = time.time(), "0123456789abcdef.1"
            started = (first + 2 * step, at, "step.started", "work", key, 1, _INTENT, 123456789, 123456789)
            finished = (
                first + 2 * step + 1,
                at,
                "step.finished",
                "work",
                key,
                1,
                _OUTCOME,
                123456789,
                123456789,
            )
            await writer.put(started + finished)

    async def load() -> float:
        began = clock()
        await asyncio.gather(*(one(number) for number in range(runs)))
        return runs * steps / (clock() - began)

    writer = _Writer(path)
    try:
        return asyncio.run(load())
    finally:
        writer.close()
