"""How things are measured here: interleaved in blocks, medians, and always against something bare in the same run."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
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


def size_on_disk(database: Path) -> int:
    """All that a database has on disk: the file, its WAL, and what else lies beside it."""
    return sum(path.stat().st_size for path in database.parent.glob(f"{database.name}*"))


def fresh_interpreter_ms(codes: Sequence[str], *, rounds: int) -> list[float]:
    """The median time of each program in a fresh interpreter, in ms, less that of an empty one."""
    times: list[list[float]] = [[] for _ in (*codes, "")]
    for _ in range(rounds):
        for code, taken in zip((*codes, "pass"), times, strict=True):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            taken.append(time.perf_counter() - began)
    empty = statistics.median(times[-1])
    return [(statistics.median(taken) - empty) * 1000 for taken in times[:-1]]
