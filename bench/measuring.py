"""How things are measured here: interleaved in blocks, medians, and always against something bare in the same run.

Noise hits all that is measured in one round alike, so ratios and differences are taken round by round. Their median is the
figure; what lies between the tenth and the ninetieth percentile is printed as its spread.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Figure(NamedTuple):
    """One line of the table: what was measured, the value, its bar (None: only for the record), and the facts behind it."""

    subject: str
    value: float
    bar: float | None
    unit: str
    facts: str
    at_least: bool = False
    spread: str = ""
    """Between which values four of five rounds lay; empty where there are no rounds."""

    @property
    def passes(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.at_least else self.value <= self.bar


def interleaved_us(works: Sequence[Callable[[], object]], *, rounds: int, block: int) -> list[float]:
    """The median time of each work, in µs, taken in blocks that alternate so that noise hits all alike."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, taken in zip(works, times, strict=True):
            for _ in range(block):
                began = time.perf_counter()
                work()
                taken.append(time.perf_counter() - began)
    return [statistics.median(taken) * 1e6 for taken in times]


def rounds_us(
    works: Sequence[Callable[[], object]],
    *,
    rounds: int,
    block: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """For each work the median of each round's block, in µs, by this clock."""
    medians: list[list[float]] = [[] for _ in works]
    for number in range(rounds):
        # Each work comes first in its turn: what one leaves behind (a full WAL) must not always hit the same next one.
        for at in range(len(works)):
            which = (at + number) % len(works)
            work, taken = works[which], list[float]()
            for _ in range(block):
                began = clock()
                work()
                taken.append(clock() - began)
            medians[which].append(statistics.median(taken) * 1e6)
    return medians


def ratio(subject: str, over: list[float], under: list[float], bar: float | None, facts: str) -> Figure:
    """A figure of how many times as long as another something takes."""
    return _figure(subject, [a / b for a, b in zip(over, under, strict=True)], bar, "×", facts, digits=2)


def added(subject: str, over: list[float], under: list[float], bar: float | None, facts: str) -> Figure:
    """A figure of how much longer than another something takes, in µs."""
    return _figure(
        subject, [a - b for a, b in zip(over, under, strict=True)], bar, "µs more", facts, digits=0
    )


def _figure(
    subject: str, values: list[float], bar: float | None, unit: str, facts: str, *, digits: int
) -> Figure:
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    spread = f"{low:.{digits}f} to {high:.{digits}f}, {len(ordered)} rounds"
    return Figure(subject, statistics.median(values), bar, unit, facts, spread=spread)


def median_us(taken: list[float]) -> str:
    """The median as text."""
    return f"{statistics.median(taken):,.0f} µs"


def size_on_disk(database: Path) -> int:
    """All that a database has on disk: the file, its WAL, and what else lies beside it."""
    return sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))


def fresh_interpreter_ms(codes: Sequence[str], *, rounds: int) -> list[float]:
    """The median time of each program in a fresh interpreter, in ms, less that of an empty one."""
    times: list[list[float]] = [[] for _ in (*codes, "")]
    with compiled_once() as environment:
        for number in range(rounds + 1):
            for code, taken in zip((*codes, "pass"), times, strict=True):
                began = time.perf_counter()
                subprocess.run([sys.executable, "-c", code], check=True, env=environment)
                if number:  # the first start compiles
                    taken.append(time.perf_counter() - began)
    empty = statistics.median(times[-1])
    return [(statistics.median(taken) - empty) * 1000 for taken in times[:-1]]


@contextmanager
def compiled_once() -> Iterator[dict[str, str]]:
    """An environment in which Python keeps what it has compiled, whatever this one says: the first start is the slow one."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment
