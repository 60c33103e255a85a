"""What entering a run with 10,000 recorded steps costs, and what each recorded step costs to pass."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from bench.measuring import Figure

STEPS = 10_000
ROUNDS = 7


class Again(Exception):
    """Ends an attempt without finishing the run."""


def work(number: int) -> dict[str, object]:
    return {"number": number, "text": "a short result, as most tools give"}


def figures(place: Path) -> Iterator[Figure]:
    """Entering, and fast-forward per step, over the median of a few attempts."""
    url = place / "holdfast.db"
    _attempt(url)
    taken = [_attempt(url) for _ in range(ROUNDS)]
    enter_ms = statistics.median(entering for entering, _ in taken) * 1000
    step_us = statistics.median(passing for _, passing in taken) / STEPS * 1e6
    yield Figure(
        f"fast-forward over {STEPS:,} steps", step_us, 10.0, "µs a step", f"median of {ROUNDS} attempts"
    )
    yield Figure("entering that run", enter_ms, 150.0, "ms", f"{2 * STEPS:,} events, verified and folded")


def _attempt(url: Path) -> tuple[float, float]:
    began = time.perf_counter()
    try:
        with holdfast.run("bench", store=url) as run:
            entered = time.perf_counter()
            for number in range(STEPS):
                run.step("work", work, number)
            passed = time.perf_counter()
            raise Again
    except Again:
        return entered - began, passed - entered
    raise AssertionError
