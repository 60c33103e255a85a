"""``python -m bench.peers.start MODULE VERB PLACE URL …``: one process of one driver. Prints how many seconds its verb took; of a crowd, its CPU time before."""

import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

TIMES = 20
"""So often a branch is made, and two places are compared."""


def main(module: str, verb: str, place: str, url: str, *numbers: str) -> None:
    driver = import_module(f"bench.peers.drivers.{module}")
    where = Path(place)
    if verb == "agent":
        driver.agent(where, url)
    elif verb == "crowd":
        agents, steps = map(int, numbers)
        driver.crowd(
            where, url, ["first"], 1
        )  # what a process does once, such as imports, is the cold start's
        before = time.process_time()
        taken = _taken_s(lambda: driver.crowd(where, url, names_of(agents), steps))
        print(time.process_time() - before, taken)
    elif verb == "prune":
        print(_taken_s(lambda: driver.prune(where, url, ["first", *names_of(int(numbers[0]))])))
    else:
        act = getattr(driver, verb)
        print(statistics.median(_taken_s(lambda: act(where, url, int(numbers[0]))) for _ in range(TIMES)))
    sys.stdout.flush()
    os._exit(0)  # threads that some leave behind are nobody's to wait for


def names_of(agents: int) -> list[str]:
    return [f"agent-{number}" for number in range(agents)]


def _taken_s(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    main(*sys.argv[1:])
