"""Many runs at once on one file, and a lone async run beside a blocking one."""

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import holdfast
from bench.measuring import Figure
from holdfast.engine.journal import group_commit
from holdfast.engine.journal.journal import Draft, Journal

RUNS = 500
STEPS = 12
LONE_STEPS = 600
ROUNDS = 3


async def work(number: int) -> int:
    return number


def figures(place: Path) -> Iterator[Figure]:
    """Throughput of 500 async runs, with syncing on, off, and with one unsynced commit per step."""
    rates: dict[str, list[float]] = {"synced": [], "unsynced": [], "alone": []}
    ways = {"synced": _as_it_is, "unsynced": _unsynced, "alone": _alone}
    for number in range(ROUNDS):
        for name, prepare in ways.items():
            store = holdfast.store(place / f"{name}-{number}.db")
            with prepare(store):
                rates[name].append(_rate(store))
            store.close()
    synced, unsynced, alone = (statistics.median(rates[name]) for name in ways)
    facts = (
        f"steps/s: synced {synced:,.0f}, unsynced {unsynced:,.0f}, one unsynced commit per step {alone:,.0f}"
    )
    yield Figure(f"{RUNS} async runs: synced / unsynced", synced / unsynced, 0.6, "×", facts, at_least=True)
    yield Figure(
        f"{RUNS} async runs: synced / one unsynced commit per step",
        synced / alone,
        1.0,
        "×",
        facts,
        at_least=True,
    )
    yield _lone(place)


def _rate(store: holdfast.Store) -> float:
    times: list[float] = []

    async def one(number: int) -> None:
        async with holdfast.run(f"run-{number}", store=store) as run:
            await barrier.wait()
            began = time.perf_counter()
            for step in range(STEPS):
                await run.step("work", work, step)
            await barrier.wait()
            times.append(time.perf_counter() - began)

    async def load() -> None:
        await asyncio.gather(*(one(number) for number in range(RUNS)))

    barrier = asyncio.Barrier(RUNS)
    asyncio.run(load())
    return RUNS * STEPS / max(times)


@contextmanager
def _as_it_is(store: holdfast.Store) -> Iterator[None]:  # noqa: ARG001 - nothing to change
    """The product as it is."""
    yield


@contextmanager
def _unsynced(store: holdfast.Store) -> Iterator[None]:
    """The same load with syncing off; reaches into the store, which has no such switch on purpose."""
    database: Any = store._port._database  # type: ignore[attr-defined]
    for connection in (database.synced, database.flushed):
        connection.execute("PRAGMA synchronous = OFF")
    yield


@contextmanager
def _alone(store: holdfast.Store) -> Iterator[None]:
    """One unsynced commit per step: nothing is shared, and an intent waits for its outcome's commit."""
    append = Journal.append
    intents: dict[str, list[Draft]] = {}

    async def joined(
        self: Journal, runtime: Any, drafts: Any, at: float, *, synced: bool = True, **rest: Any
    ) -> int:
        if not synced:
            intents.setdefault(self.run, []).extend(drafts)
            return self.head
        return await append(self, runtime, [*intents.pop(self.run, ()), *drafts], at, synced=True, **rest)

    with (
        _unsynced(store),
        patch.object(Journal, "append", joined),
        patch.object(group_commit, "BATCH_ITEMS_MAX", 1),
    ):
        yield


def _lone(place: Path) -> Figure:
    def plain(number: int) -> int:
        return number

    blocked: list[float] = []
    awaited: list[float] = []

    def blocking(round_: int) -> None:
        with holdfast.run(f"blocking-{round_}", store=place / "lone.db") as run:
            began = time.perf_counter()
            for step in range(LONE_STEPS):
                run.step("work", plain, step)
            blocked.append(time.perf_counter() - began)

    async def awaiting(round_: int) -> None:
        async with holdfast.run(f"awaiting-{round_}", store=place / "lone.db") as run:
            began = time.perf_counter()
            for step in range(LONE_STEPS):
                await run.step("work", work, step)
            awaited.append(time.perf_counter() - began)

    for number in range(5):
        blocking(number)
        asyncio.run(awaiting(number))
    blocked_us, awaited_us = (statistics.median(times) / LONE_STEPS * 1e6 for times in (blocked, awaited))
    facts = f"blocking {blocked_us:.0f} µs, async {awaited_us:.0f} µs a step"
    return Figure("a lone async run / the blocking one", awaited_us / blocked_us, 1.4, "×", facts)
