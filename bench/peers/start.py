"""``python -m bench.peers.start MODULE VERB PLACE URL …``: one process of one driver. Prints what ``crowd`` and ``fork`` took."""

import os
import statistics
import sys
import time
from importlib import import_module
from pathlib import Path

FORKS = 20


def main(module: str, verb: str, place: str, url: str, *numbers: str) -> None:
    driver = import_module(f"bench.peers.drivers.{module}")
    if verb == "agent":
        driver.agent(Path(place), url)
    elif verb == "crowd":
        agents, steps = (int(number) for number in numbers)
        began = time.perf_counter()
        driver.crowd(Path(place), url, agents, steps)
        print(time.perf_counter() - began)
    else:
        times = []
        for _ in range(FORKS):
            began = time.perf_counter()
            driver.fork(Path(place), url, int(numbers[0]))
            times.append(time.perf_counter() - began)
        print(statistics.median(times))
    sys.stdout.flush()
    os._exit(0)  # threads that some leave behind are nobody's to wait for


if __name__ == "__main__":
    main(*sys.argv[1:])
