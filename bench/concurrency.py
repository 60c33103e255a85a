"""Many runs at once on one file, and a lone async run beside a blocking one."""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import holdfast
from bench import bare_tasks
from bench.measuring import Figure
from bench.places import in_memory
from holdfast.engine.journal import group_commit
from holdfast.engine.journal.drafts import Draft
from holdfast.engine.journal.journal import Journal
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

RUNS = 500
STEPS = 12
LONE_STEPS = 600
ROUNDS = 3
SLOWED_S = 0.03
T = TypeVar("T")


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
    with in_memory() as memory:
        yield from _per_cpu_second(memory or place)
        yield _appends(memory or place)
        yield _loop_held(memory or place)


def _per_cpu_second(place: Path) -> Iterator[Figure]:
    """In memory, so that nothing waits: how many steps the processor does in a second, and how many at most.

    The best of the rounds of each, which take turns: a busy machine only ever takes away.
    """
    rates, bare = list[float](), list[float]()
    for number in range(ROUNDS + 2):
        with closing(holdfast.store(place / f"cpu-{number}.db")) as store:
            rates.append(_rate(store, time.process_time))
        bare.append(bare_tasks.rate(place / f"bare-{number}.db", RUNS, STEPS, work, time.process_time))
    yield Figure(
        f"{RUNS} async runs in memory",
        max(rates),
        25_000.0,
        "steps a CPU second",
        f"best of {len(rates)} rounds, {STEPS} steps each",
        at_least=True,
        spread=f"{min(rates):,.0f} to {max(rates):,.0f}, {len(rates)} rounds",
    )
    yield Figure(
        f"{RUNS} async runs in memory: processor time of a step / bare tasks that write the same rows",
        max(bare) / max(rates),
        None,
        "×",
        f"the floor: {max(bare):,.0f} steps a CPU second; bench/bare_tasks.py",
    )


class Counting(Relay):
    """A store that counts the appends it is asked for."""

    appends = 0

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        self.appends += verb.__name__ == "append"
        return verb(*args, **kwargs)


def _appends(place: Path) -> Figure:
    """Runs that step together share each append: counted, so that no noise moves it."""
    port = Counting(open_store(place / "appends.db"))
    with closing(holdfast.Store(port)) as store:
        steps = _rate(store, lambda: port.appends)
    return Figure(f"{RUNS} async runs: steps an append", steps, None, "", "", at_least=True)


class Slow(Relay):
    """A store each of whose calls takes 30 ms longer; it adds up how long calls have held an event loop."""

    held_s = 0.0
    longest = "none did"

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        began = time.perf_counter()
        time.sleep(SLOWED_S)
        try:
            return verb(*args, **kwargs)
        finally:
            if asyncio._get_running_loop() is not None:  # the call was made by the loop's own thread
                self.held_s += time.perf_counter() - began
                self.longest = verb.__name__


def _loop_held(place: Path) -> Figure:
    """Five runs with ten steps each, and a task that looks how late it is woken."""
    port = Slow(open_store(place / "slow.db"))
    late: list[float] = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append(time.perf_counter() - began - 0.001)

    async def one(number: int) -> None:
        async with holdfast.run(f"slow-{number}", store=store) as run:
            for step in range(10):
                await run.step("work", work, step)
            await run.checkpoint({"number": number})

    async def load() -> None:
        ticking = asyncio.create_task(tick())
        await asyncio.gather(*(one(number) for number in range(5)))
        ticking.cancel()

    with closing(holdfast.Store(port)) as store:
        asyncio.run(load())
    facts = f"calls that held it: {port.longest}; another task was woken up to {max(late) * 1e3:.0f} ms late, load included"
    return Figure(
        "5 async runs, store slowed by 30 ms: the loop held by store calls",
        port.held_s * 1e3,
        5.0,
        "ms",
        facts,
    )


def _rate(store: holdfast.Store, clock: Callable[[], float] = time.perf_counter) -> float:
    times: list[float] = []

    async def one(number: int) -> None:
        async with holdfast.run(f"run-{number}", store=store) as run:
            await barrier.wait()
            began = clock()
            for step in range(STEPS):
                await run.step("work", work, step)
            await barrier.wait()
            times.append(clock() - began)

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
