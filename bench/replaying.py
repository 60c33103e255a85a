"""What entering a long run costs beside reading its rows bare, what each recorded step costs to pass, and the first new one.

In memory, and by the processor's time: nothing here waits. Entering and the bare read are measured in turns, each in a
process of its own that has loaded its modules, as a resume happens: in one process, the bare read took 10 ms or 13,
depending on how much memory the attempt before it had left. The table tells which CPython made the figures: one that was
built with its profile (``--enable-optimizations``) is up to a third faster.
"""

import gc
import logging
import platform
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

import holdfast
from bench.measuring import Figure, ratio
from bench.places import in_memory

STEPS = 10_000
MANY = 100_000
ROUNDS = 15
ROUNDS_OF_MANY = 5
SELECT = "SELECT seq, at, kind, name, key, fence, body, crc, chain FROM events WHERE id > 0 ORDER BY id"


class Again(Exception):
    """Ends an attempt without finishing the run."""


def work(number: int) -> dict[str, object]:
    return {"number": number, "text": "a short result, as most tools give"}


def figures(place: Path) -> Iterator[Figure]:
    """Of 10,000 steps, and of 100,000: there a snapshot is used, and bodies are read in pages."""
    with in_memory() as memory:
        yield from _figures(memory or place, STEPS, ROUNDS, 4.5)
        yield from _figures(memory or place, MANY, ROUNDS_OF_MANY, 6.0)


def _figures(place: Path, steps: int, rounds: int, bar: float) -> Iterator[Figure]:
    url = place / f"holdfast-{steps}.db"
    _attempt(url, steps)
    _attempt(url, steps)  # loads what only a resume needs; and writes the snapshot of the longer one
    entering, passing, following, bare = list[float](), list[float](), list[float](), list[float]()
    for _ in range(rounds):
        bare.append(_fresh(url, "bare"))
        entering.append(_fresh(url, "enter"))
        _, passed, followed = _attempt(url, steps)
        passing.append(passed)
        following.append(followed)
    step_us = [taken / steps * 1e6 for taken in passing]
    yield Figure(
        f"replay of {steps:,} steps",
        statistics.median(step_us),
        bar,
        "µs a step",
        f"CPU; {this_python()}",
        spread=f"{min(step_us):.1f} to {max(step_us):.1f}, {rounds} rounds",
    )
    enter_ms, bare_ms = (statistics.median(taken) * 1e3 for taken in (entering, bare))
    facts = f"CPU: entering {enter_ms:.0f} ms, rows {bare_ms:.0f} ms; {2 * steps:,} events"
    yield ratio(
        f"entering {steps:,} steps / reading their rows bare",
        entering,
        bare,
        2.5 if steps == STEPS else None,
        facts,
    )
    yield Figure(
        f"the first new step after {steps:,}",
        statistics.median(following) * 1e3,
        None,
        "ms",
        "CPU",
        spread=f"{min(following) * 1e3:.1f} to {max(following) * 1e3:.1f}, {rounds} rounds",
    )


def this_python() -> str:
    """Which CPython this is, and whether it says that it was built with its profile. Debian's is, and does not say so."""
    settings = [sysconfig.get_config_var(name) or "" for name in ("CONFIG_ARGS", "PY_CORE_CFLAGS")]
    is_told = any("--enable-optimizations" in one or "-fprofile-use" in one for one in settings)
    return f"CPython {platform.python_version()}, {'optimised' if is_told else 'not optimised as far as it says'}"


def _fresh(url: Path, which: str) -> float:
    """One of the two in a new process, in seconds."""
    code = f"from bench import replaying; replaying.print_one({str(url)!r}, {which!r})"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


def print_one(url: str, which: str) -> None:
    """What the new process does: first it loads all modules, by entering a run that was just begun."""
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    _attempt(Path(f"{url}-short.db"), 0)
    _attempt(Path(f"{url}-short.db"), 0)
    print(_bare(Path(url)) if which == "bare" else _attempt(Path(url), 0)[0])


def _bare(url: Path) -> float:
    """The rows as tuples, all of them there in the end; nothing is verified. By a connection that knows no page of it."""
    connection = apsw.Connection(str(url), flags=apsw.SQLITE_OPEN_READONLY)
    gc.disable()  # as a resume does: what is loaded is no garbage
    began = time.process_time()
    rows = connection.execute(SELECT).fetchall()
    taken = time.process_time() - began
    gc.enable()
    assert len(rows) > STEPS
    connection.close()
    return taken


def _attempt(url: Path, steps: int) -> tuple[float, float, float]:
    """Entering, passing all steps, and one new one; in seconds, with a handle that has seen nothing."""
    store = holdfast.store(url)
    gc.collect()  # what the attempt before left is not this one's to free
    began = time.process_time()
    try:
        with holdfast.run("bench", store=store) as run:
            entered = time.process_time()
            for number in range(steps):
                run.step("work", work, number)
            passed = time.process_time()
            run.step("work", work, -time.monotonic_ns())  # no number of an earlier attempt, in any process
            ended = time.process_time()
            raise Again
    except Again:
        store.close()
        return entered - began, passed - entered, ended - passed
    raise AssertionError
