"""What a store costs that has grown: 10,000 runs beside 1,000 and 100, by the time and by the calls of the port.

What is asked of one run, or of one page, must cost the same however many runs there are; what is asked of all of them must
grow with their number and no faster. On SQLite, and on a PostgreSQL server.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.support.postgres.server import Server

import holdfast
from bench.many_runs import EVENTS, Cut, add_runs, name_of, work
from bench.measuring import Figure, interleaved_us
from holdfast.clock import SystemClock
from holdfast.engine.lineage.kin import note_all
from holdfast.engine.prune.prune_run import Pruning
from holdfast.model.retention import RETENTION
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

FEW, SOME, MANY = 100, 1_000, 10_000
PAGE = 20
_COMMAND = "from holdfast.cli import main; main()"
T = TypeVar("T")
_names = count()


class Counting(Relay):
    """Counts the calls that cross it."""

    calls = 0

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        self.calls += 1
        return verb(*args, **kwargs)


class Grown(NamedTuple):
    """A store of so many runs."""

    runs: int
    url: str
    port: Counting
    store: holdfast.Store


def figures(place: Path) -> Iterator[Figure]:
    """First SQLite, then PostgreSQL: the server is set as it comes, on a disk that is really synced."""
    yield from _of("SQLite", lambda runs: f"sqlite:///{place}/{runs}.db")
    server = Server.started(within="/var/tmp", settings={})
    try:
        yield from _of("PostgreSQL", lambda runs: f"{server.url()}?schema=grown_{runs}")
    finally:
        server.remove()


def _of(kind: str, url_of: Callable[[int], str]) -> Iterator[Figure]:
    few, some, many = (_grown(runs, url_of(runs)) for runs in (FEW, SOME, MANY))
    try:
        yield _commands(kind, few, many)
        for what, act in (("a page of runs", _page), ("of one status", _page_of_failed)):
            yield _same(kind, what, few, many, act, bar=2.0)
        for what, act in (
            ("entering a run", _enter),
            ("forking", _fork),
            ("planning one run's prune", _plan),
        ):
            yield _same(kind, what, few, many, act, bar=1.2)
        yield _linear(
            kind, "prune --dry-run", some, many, lambda one: one.store.prune(dry_run=True), bar=12.0
        )
        yield _linear(kind, "stats", some, many, lambda one: one.store.stats())
        yield _linear(kind, "doctor", some, many, lambda one: one.store.examine())
    finally:
        for one in (few, some, many):
            one.store.close()


def _grown(runs: int, url: str) -> Grown:
    port = Counting(open_store(url))
    add_runs(port, 0, runs)
    note_all(port)
    return Grown(runs, url, port, holdfast.Store(port))


# -- what must not grow -------------------------------------------------------------------------------------------


def _commands(kind: str, few: Grown, many: Grown) -> Figure:
    """As a person waits for it, the start of the interpreter included."""

    def run(grown: Grown) -> None:
        command = [sys.executable, "-c", _COMMAND, "runs", "--store", grown.url]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    small, large = interleaved_us([lambda: run(few), lambda: run(many)], rounds=7, block=1)
    facts = f"{small / 1e3:.0f} ms at {FEW} runs, {large / 1e3:.0f} ms at {MANY:,}"
    return Figure(f"{kind}: `holdfast runs`, {MANY:,} runs / {FEW}", large / small, 2.0, "×", facts)


def _page(grown: Grown) -> object:
    return holdfast.Store(grown.port).overview(limit=PAGE)


def _page_of_failed(grown: Grown) -> object:
    return holdfast.Store(grown.port).overview(statuses=["failed"], limit=2)


def _enter(grown: Grown) -> object:
    with suppress(Cut), holdfast.run(f"new-{next(_names)}", store=grown.store) as run:
        run.step("work", work, 1)
        raise Cut
    return None


def _fork(grown: Grown) -> object:
    return grown.store.fork(f"{name_of(51)}@#{EVENTS // 2}", as_=f"fork-{next(_names)}")


def _plan(grown: Grown) -> object:
    return Pruning(grown.port, SystemClock(), name_of(49), RETENTION).foresee()


def _same(
    kind: str, what: str, few: Grown, many: Grown, act: Callable[[Grown], object], *, bar: float
) -> Figure:
    calls = []
    for one in (few, many):
        act(one)
        before = one.port.calls
        act(one)
        calls.append(one.port.calls - before)
    small, large = interleaved_us([lambda: act(few), lambda: act(many)], rounds=60, block=1)
    facts = f"{small:.0f} µs and {large:.0f} µs; {calls[0]} and {calls[1]} calls of the port"
    return Figure(f"{kind}: {what}, {MANY:,} runs / {FEW}", large / small, bar, "×", facts)


# -- what grows with the store ------------------------------------------------------------------------------------


def _linear(
    kind: str,
    what: str,
    some: Grown,
    many: Grown,
    act: Callable[[Grown], object],
    *,
    bar: float | None = None,
) -> Figure:
    taken: dict[int, list[float]] = {some.runs: [], many.runs: []}
    calls = 0
    for one in (some, some, many, some, some):
        before, began = one.port.calls, time.perf_counter()
        act(one)
        taken[one.runs].append(time.perf_counter() - began)
        calls = calls if one is some else one.port.calls - before
    times = [statistics.median(found) for found in taken.values()]
    each = [taken / one.runs * 1e3 for taken, one in zip(times, (some, many), strict=True)]
    facts = f"{times[0]:.1f} s and {times[1]:.1f} s: {each[0]:.2f} and {each[1]:.2f} ms a run; {calls / MANY:.1f} calls a run"
    return Figure(f"{kind}: {what}, {MANY:,} runs / {SOME:,}", times[1] / times[0], bar, "×", facts)
