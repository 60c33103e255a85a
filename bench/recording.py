"""What recording a step costs beside a bare commit of the same bytes: from memory to the disk.

Each place is measured by a process of its own (``python -m bench.recording DIRECTORY``), so that a library can be loaded
below it; bare commits and steps take turns in it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import apsw

import holdfast
from bench.measuring import Figure, added, median_us, ratio, rounds_us
from bench.places import Place, places

ROUNDS = 40
BLOCK = 25


def work(number: int) -> str:
    """A result of 4 KB. It captures nothing and reads nothing of its module: that would be part of the intent."""
    return f"{number:08}" * 512


def figures(place: Path) -> Iterator[Figure]:
    """A ``read`` and a ``once`` step with a 4 KB result against a bare WAL/FULL insert-and-commit."""
    with places(place) as found:
        for one in found:
            yield from _figures(one)


def _figures(place: Place) -> Iterator[Figure]:
    bare, read, once, sync = _measured(place)
    facts = f"bare {median_us(bare)}, read {median_us(read)}, once {median_us(once)}"
    if place.name == "in memory":
        facts += " of CPU time"
        yield added("in memory: read step, 4 KB result, above a bare commit", read, bare, 45.0, facts)
        yield added("in memory: once step, 4 KB result, above a bare commit", once, bare, 65.0, facts)
        return
    facts += f"; a sync alone {median_us(sync)}"
    bars = (1.5, 2.6) if place.preload else (None, None)
    yield ratio(f"{place.name}: read step, 4 KB result / bare commit", read, bare, bars[0], facts)
    yield ratio(f"{place.name}: once step, 4 KB result / bare commit", once, bare, bars[1], facts)


def _measured(place: Place) -> list[list[float]]:
    command = [sys.executable, "-m", "bench.recording", str(place.path)]
    # In memory nothing waits: the processor's time is all there is, and the other processes of the machine do not add to it.
    environment = {**os.environ, "LD_PRELOAD": place.preload, "BENCH_CPU": str(place.name == "in memory")}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    found: list[list[float]] = json.loads(done.stdout)
    return found


def measure(place: Path) -> list[list[float]]:
    """Round by round, in µs: a bare commit, a read step, a once step, and a sync of 4 KB alone."""
    data = f'"{work(0)}"'.encode()
    bare = bare_table(place / "bare.db")
    numbers = count()
    with (place / "synced").open("wb", buffering=0) as file:

        def sync() -> None:
            file.write(data)
            os.fdatasync(file.fileno())

        with holdfast.run("bench", store=place / "holdfast.db") as run:
            taken = rounds_us(
                [
                    lambda: bare.execute("INSERT INTO t (b) VALUES (?)", (data,)),
                    lambda: run.step("read", work, next(numbers)),
                    lambda: run.once("once", work, next(numbers)),
                    sync,
                ],
                rounds=ROUNDS,
                block=BLOCK,
                clock=time.process_time if os.environ.get("BENCH_CPU") == "True" else time.perf_counter,
            )
    bare.close()
    return taken


def bare_table(path: Path) -> apsw.Connection:
    """A table for bare commits, as durable as a step's."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB)")
    return connection


if __name__ == "__main__":
    json.dump(measure(Path(sys.argv[1])), sys.stdout)
