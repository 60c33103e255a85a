"""What living with code changes costs: the guard of recorded effects on a step, and a replay beside a bare one."""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from bench.measuring import Figure
from holdfast.api.enter import replaying

ROUNDS = 15
BLOCK = 200
STEPS = 1_000


def work(number: int) -> dict[str, object]:
    return {"number": number, "text": "a short result, as most tools give"}


def figures(place: Path) -> Iterator[Figure]:
    """CPU of this thread, in blocks that alternate, so that noise hits both alike."""
    with_guard, without = _guarded_us(place / "guard.db")
    yield Figure(
        "a once step with the guard of recorded effects",
        with_guard / without,
        1.02,
        "× one without",
        f"{with_guard:.1f} and {without:.1f} µs of CPU; a resumed run, all recorded effects claimed",
    )
    replay_ms, bare_ms = _replayed_ms(place / "replay.db")
    yield Figure(
        f"replay of {STEPS:,} steps over today's program",
        replay_ms / bare_ms,
        3.0,
        "× entering and passing them",
        f"{replay_ms:.1f} and {bare_ms:.1f} ms of CPU, median of {ROUNDS}",
    )


def _guarded_us(path: Path) -> tuple[float, float]:
    with holdfast.run("guarded", store=path) as run:
        for number in range(BLOCK):
            run.once("first", work, number)
        run.close()
    taken: dict[bool, list[float]] = {True: [], False: []}
    run = holdfast.run("guarded", store=path, loops=None, retention=None).open()
    for number in range(BLOCK):
        run.once("first", work, number)
    held, number = run._held, 0
    for _ in range(ROUNDS):
        for is_on in (True, False):
            for name in ("drift", "program"):
                held.feature(name) if is_on else held.put_to_sleep(name)
            run.once("settled", work, number := number + 1)
            began = time.thread_time()
            for _ in range(BLOCK):
                number += 1
                run.options(key=f"k{number}").once("live", work, number)
            taken[is_on].append((time.thread_time() - began) / BLOCK * 1e6)
    run.close()
    return statistics.median(taken[True]), statistics.median(taken[False])


def _replayed_ms(path: Path) -> tuple[float, float]:
    def program() -> None:
        with holdfast.run("replayed", store=path) as run:
            for number in range(STEPS):
                run.step("work", work, number)

    program()
    taken: dict[bool, list[float]] = {True: [], False: []}
    found: list[object] = []
    for _ in range(ROUNDS):
        for replays in (True, False):
            began = time.process_time()
            if replays:
                with replaying(found.append):
                    program()
            else:
                program()
            taken[replays].append((time.process_time() - began) * 1000)
    assert len(found) == ROUNDS
    return statistics.median(taken[True]), statistics.median(taken[False])
