"""A program with two payments that gets SIGTERM at the k-th append of its store: ``terminated.py URL MODE K WHEN``.

Each payment is a line in the file ``ledger``. It writes ``no more appends`` if it never came to the k-th one.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from holdfast.stores.sqlite import SqliteStore


def pay(name: str) -> str:
    with Path("ledger").open("a") as ledger:
        ledger.write(f"{name}\n")
    return name


async def pay_async(name: str) -> str:
    await asyncio.sleep(0)
    return pay(name)


def strike(k: int, when: str) -> Callable[[], int]:
    """Let the k-th append send SIGTERM to this process, before or behind it; gives how many there were."""
    append = SqliteStore.append
    seen = [0]

    def struck(self: SqliteStore, *args: Any, **kwargs: Any) -> Any:
        seen[0] += 1
        if seen[0] == k and when == "before":
            os.kill(os.getpid(), signal.SIGTERM)
        done = append(self, *args, **kwargs)
        if seen[0] == k and when == "behind":
            os.kill(os.getpid(), signal.SIGTERM)
        return done

    SqliteStore.append = struck  # type: ignore[method-assign]  # that is the strike
    return lambda: seen[0]


def work(url: str) -> None:
    with holdfast.run("run", store=url) as run:
        run.step("look", len, "abc")
        run.once("first", pay, "first")
        run.once("second", pay, "second")


async def work_async(url: str) -> None:
    async with holdfast.run("run", store=url) as run:
        await run.step("look", len, "abc")
        await run.once("first", pay_async, "first")
        await run.once("second", pay, "second")


def main(url: str, mode: str, k: str, when: str) -> None:
    appends = strike(int(k), when)
    if mode == "async":
        asyncio.run(work_async(url))
    else:
        work(url)
    if appends() < int(k):
        Path("no more appends").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
