"""A store in PostgreSQL beside bare psycopg: a real server, set as it comes, with syncs of 100 µs and on a disk that is really synced."""

import asyncio
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from tests.support.postgres.server import Server

import holdfast
from bench.measuring import Figure, median_us, ratio, rounds_us
from bench.places import in_memory, slow_sync
from holdfast.model.store_rows import Append
from holdfast.stores.postgres.wire.append_requests import one_item
from holdfast.stores.postgres.wire.append_statements import append_rows
from holdfast.testing.store_rules.builders import an_event, held

_MEMORY = Path("/dev/shm")
RUNS = 200
RUN_STEPS = 20
LONE_STEPS = 400
ROUNDS = 5
STEPS = 10_000
STEP_ROUNDS, STEP_BLOCK, CPU_ROUNDS = 40, 25, 20
SELECT = (
    "SELECT seq, at, kind, name, key, fence, body, crc FROM holdfast.events "
    "WHERE run = (SELECT id FROM holdfast.runs WHERE run = %s) ORDER BY run, seq"
)


class Again(Exception):
    """Ends an attempt without finishing the run."""


def figures(place: Path) -> Iterator[Figure]:  # noqa: ARG001 - the server runs as another user, who may not look in there
    """A ``read`` step, many runs at once, and entering a long run. Nothing is tuned.

    First where a sync takes 100 µs, since beside the milliseconds of a busy disk no work of ours shows; then on the disk.
    """
    with _slow_server() as server:
        if server is not None:
            yield from _recording(server.url(), "syncs of 100 µs", 1.4)
            yield _concurrency(server.url(), "syncs of 100 µs", 8.0)
    server = Server.started(within="/var/tmp", settings={})
    try:
        yield from _recording(server.url(), "disk", None)
        yield _concurrency(server.url(), "disk", None)
        yield _entering(server.url())
    finally:
        server.remove()


@contextmanager
def _slow_server() -> Iterator[Server | None]:
    """A server in memory whose syncs take 100 µs; None where that cannot be had."""
    with in_memory() as memory:
        shim = slow_sync(memory) if memory is not None else None
        if memory is None or shim is None:
            yield None
            return
        memory.chmod(0o755)  # the server runs as another user
        before = os.environ.get("LD_PRELOAD", "")
        os.environ["LD_PRELOAD"] = str(shim)
        try:
            server = Server.started(within=str(_MEMORY), settings={})
        finally:
            os.environ["LD_PRELOAD"] = before
        try:
            yield server
        finally:
            server.remove()


# -- a step ---------------------------------------------------------------------------------------------------


def _recording(url: str, where: str, bar: float | None) -> Iterator[Figure]:
    """Against an insert-and-commit of the same bytes, prepared, in binary, by autocommit."""
    data = f'"{result_4k(0)}"'.encode()
    numbers = count()

    with closing(_bare(url)) as bare, closing(holdfast.store(url)) as store:
        bare.execute(
            "CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b bytea NOT NULL)"
        )

        def insert() -> None:
            bare.execute("INSERT INTO bare (b) VALUES (%s)", (data,), prepare=True, binary=True)

        floor = _same_statement(bare, store, data, STEP_ROUNDS * STEP_BLOCK)
        with holdfast.run("bench", store=store) as run:
            plain, libpq, read, once = rounds_us(
                [
                    insert,
                    floor,
                    lambda: run.step("read", result_4k, next(numbers)),
                    lambda: run.once("once", result_4k, next(numbers)),
                ],
                rounds=STEP_ROUNDS,
                block=STEP_BLOCK,
            )
            cpu = _cpu_us(
                {
                    "bare": (insert, [bare]),
                    "read": (
                        lambda: run.step("read", result_4k, next(numbers)),
                        list(store._port._database._idle),  # type: ignore[attr-defined]
                    ),
                }
            )
    facts = f"bare {median_us(plain)}, read {median_us(read)}, once {median_us(once)}"
    if cpu:
        told = "; ".join(f"{name} {client:.0f} + {server:.0f} µs" for name, (client, server) in cpu.items())
        yield Figure(
            f"PostgreSQL, {where}: read step / bare commit, CPU of client and server",
            sum(cpu["read"]) / sum(cpu["bare"]),
            None,
            "×",
            f"least of {CPU_ROUNDS} rounds: {told}",
        )
    yield ratio(
        f"PostgreSQL, {where}: the read step's statement by bare libpq / bare commit",
        libpq,
        plain,
        None,
        f"the floor: {median_us(libpq)}; guarded by fence and head, two rows",
    )
    yield ratio(f"PostgreSQL, {where}: read step, 4 KB result / bare commit", read, plain, bar, facts)
    yield ratio(f"PostgreSQL, {where}: once step, 4 KB result / bare commit", once, plain, None, facts)


def _cpu_us(
    works: dict[str, tuple[Callable[[], object], list[psycopg.Connection[Any]]]],
) -> dict[str, tuple[float, float]]:
    """The processor time of each work: of this thread, and of its connections' server processes.

    A busy machine moves it less than times. Empty where the system does not tell it.
    """
    least: dict[str, tuple[float, float]] = {}
    for name, (work, connections) in [*works.items()] * CPU_ROUNDS:
        paths = [Path(f"/proc/{connection.info.backend_pid}/schedstat") for connection in connections]
        if not all(path.exists() for path in paths):
            return {}
        before, began = _on_cpu_ns(paths), time.thread_time()
        for _ in range(STEP_BLOCK):
            work()
        client, server = time.thread_time() - began, _on_cpu_ns(paths) - before
        taken = client * 1e6 / STEP_BLOCK, server / 1e3 / STEP_BLOCK
        least[name] = min(least.get(name, taken), taken, key=sum)
    return least


def _on_cpu_ns(paths: list[Path]) -> int:
    return sum(int(path.read_text().split()[0]) for path in paths)


def _same_statement(
    bare: psycopg.Connection[Any], store: holdfast.Store, data: bytes, times: int
) -> Callable[[], None]:
    """What a read step sends, sent by libpq alone: all is made before, and the answer is not looked at."""
    fence = held(store._port, "floor")
    requests = iter(
        [
            one_item(
                Append(
                    "floor",
                    fence,
                    2 * number,
                    (
                        an_event("floor", 2 * number + 1, fence=fence),
                        an_event("floor", 2 * number + 2, fence=fence, body=data),
                    ),
                ),
                synced=True,
            )
            for number in range(times)
        ]
    )
    statement = append_rows(2, synced=True)
    bare.execute("SET search_path = public, holdfast")
    bare.pgconn.prepare(b"floor", statement.text, statement.types)

    def send() -> None:
        values: Any = next(requests).values  # psycopg's types forget that a value may be null
        reply = bare.pgconn.exec_prepared(b"floor", values, statement.formats, 1)
        assert reply.ntuples == 2, reply.error_message

    return send


def result_4k(number: int) -> str:
    """A result of 4 KB. It captures nothing and reads nothing of its module: that would be part of the intent."""
    return f"{number:08}" * 512


def _bare(url: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("SET synchronous_commit = on")
    return connection


# -- many runs ------------------------------------------------------------------------------------------------


async def work(number: int) -> int:
    return number


def _concurrency(url: str, where: str, bar: float | None) -> Figure:
    alone, together = list[float](), list[float]()
    with closing(holdfast.store(url)) as store:
        for number in range(ROUNDS):
            alone.append(_rate(store, f"alone-{number}", 1, LONE_STEPS))
            together.append(_rate(store, f"together-{number}", RUNS, RUN_STEPS))
    one, many = statistics.median(alone), statistics.median(together)
    facts = f"steps/s: one run {one:,.0f}, {RUNS} runs {many:,.0f}"
    return Figure(f"PostgreSQL, {where}: {RUNS} async runs / one", many / one, bar, "×", facts, at_least=True)


def _rate(store: holdfast.Store, name: str, runs: int, steps: int) -> float:
    times: list[float] = []

    async def one(number: int) -> None:
        async with holdfast.run(f"{name}-{number}", store=store) as run:
            await barrier.wait()
            began = time.perf_counter()
            for step in range(steps):
                await run.step("work", work, step)
            await barrier.wait()
            times.append(time.perf_counter() - began)

    async def load() -> None:
        await asyncio.gather(*(one(number) for number in range(runs)))

    barrier = asyncio.Barrier(runs)
    asyncio.run(load())
    return runs * steps / max(times)


# -- entering -------------------------------------------------------------------------------------------------


def _entering(url: str) -> Figure:
    """What a resume does before the program runs, against a plain SELECT of the same rows; verified and folded.

    For the record, the same SELECT with binary results: psycopg's fastest, which it does not use unless it is told to.
    """
    _attempt(url, STEPS)
    entering, selecting, in_binary = list[float](), list[float](), list[float]()
    rows = 0
    with closing(_bare(url)) as bare:
        for _ in range(2 * ROUNDS + 1):
            entering.append(_attempt(url, 0))
            for binary, taken in ((False, selecting), (True, in_binary)):
                gc.disable()  # as a resume does: what is loaded is no garbage
                began = time.perf_counter()
                rows = len(bare.execute(SELECT, ("long",), binary=binary).fetchall())
                taken.append(time.perf_counter() - began)
                gc.enable()
    enter_ms, select_ms, binary_ms = (
        statistics.median(times) * 1e3 for times in (entering, selecting, in_binary)
    )
    facts = (
        f"{rows:,} rows: SELECT {select_ms:.0f} ms, in binary {binary_ms:.0f} ms, entering {enter_ms:.0f} ms"
    )
    return Figure(f"PostgreSQL: entering {STEPS:,} steps / one SELECT", enter_ms / select_ms, 2.0, "×", facts)


def result_of(number: int) -> dict[str, object]:
    return {"number": number, "text": "a short result, as most tools give"}


def _attempt(url: str, steps: int) -> float:
    began = time.perf_counter()
    try:
        with holdfast.run("long", store=url) as run:
            entered = time.perf_counter()
            for number in range(steps):
                run.step("work", result_of, number)
            raise Again
    except Again:
        return entered - began
    raise AssertionError
