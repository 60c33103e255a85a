"""What encryption at rest adds to a step with a result of 4 KB: CPU of this thread, in blocks that alternate."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from bench.measuring import Figure

ROUNDS = 15
BLOCK = 100
RESULT = "x" * 4_096


def work(number: int) -> str:
    del number
    return RESULT


def figures(place: Path) -> Iterator[Figure]:
    """The least of the rounds: what is above it is what others did on the machine."""
    stores = {
        "sealed": holdfast.store(place / "sealed.db", key=os.urandom(32)),
        "plain": holdfast.store(place / "plain.db"),
    }
    runs = {kind: holdfast.run("r", store=store, loops=None).open() for kind, store in stores.items()}
    taken: dict[str, list[float]] = {"sealed": [], "plain": []}
    number = 0
    for _ in range(ROUNDS):
        for kind, run in runs.items():
            run.step("settled", work, number := number + 1)
            began = time.thread_time()
            for _ in range(BLOCK):
                run.step("work", work, number := number + 1)
            taken[kind].append((time.thread_time() - began) / BLOCK * 1e6)
    for run in runs.values():
        run.close()
    sealed, plain = min(taken["sealed"]), min(taken["plain"])
    yield Figure(
        "encryption at rest, a step with a result of 4 KB",
        sealed - plain,
        10.0,
        "µs above a plain store",
        f"{sealed:.1f} and {plain:.1f} µs of CPU, the least of {ROUNDS} rounds; two events",
    )
