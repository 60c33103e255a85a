"""What importing costs, and what a process pays until its first step is durable."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measuring import Figure, compiled_once, fresh_interpreter_ms, ratio
from bench.places import in_memory

ROUNDS = 25
FLOOR = """
import apsw, orjson
connection = apsw.Connection("{path}")
connection.execute("PRAGMA journal_mode = wal")
connection.execute("PRAGMA synchronous = FULL")
connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB)")
connection.execute("INSERT INTO t (b) VALUES (?)", (orjson.dumps({{"number": 1}}),))
"""
"""The least that a durable step can cost: these two libraries, a new file, and one commit."""
FIRST_STEP = """
import holdfast, os

def work(number):
    return {{"number": number}}

with holdfast.run("cold", store="{path}") as run:
    run.step("work", work, 1)
    os._exit(0)
"""
"""Ends at once, as the floor does: leaving is not part of it."""


def figures(place: Path) -> Iterator[Figure]:
    """``import holdfast`` against the stdlib's own parts for the job; a cold start against its floor."""
    base, bare, used = fresh_interpreter_ms(
        ["import sqlite3, json, hashlib", "import holdfast", "import holdfast; holdfast.run, holdfast.tool"],
        rounds=15,
    )
    facts = f"stdlib {base:.1f} ms, holdfast {bare:.1f} ms; first use loads the rest: {used:.1f} ms, {used / base:.1f} ×"
    yield Figure("import holdfast / import sqlite3, json, hashlib", bare / base, 4.0, "×", facts)
    with in_memory() as memory:
        yield _cold_start(memory or place)


def _cold_start(place: Path) -> Figure:
    """Whole processes, the interpreter's own start included in both, as a function that wakes pays for it."""
    taken: dict[str, list[float]] = {FLOOR: [], FIRST_STEP: []}
    with compiled_once() as environment:
        for number in range(ROUNDS + 1):
            for program, times in taken.items():
                with tempfile.TemporaryDirectory(dir=place) as directory:
                    code = program.format(path=f"{directory}/store.db")
                    began = time.perf_counter()
                    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
                    if number:  # the first start compiles
                        times.append((time.perf_counter() - began) * 1e6)
    floor, first = taken.values()
    facts = f"least: floor {min(floor) / 1e3:.0f} ms, first step {min(first) / 1e3:.0f} ms, each a process in memory"
    return ratio("cold start to the first durable step / floor", first, floor, 2.5, facts)
