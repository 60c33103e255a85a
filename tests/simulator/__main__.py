"""``python -m tests.simulator --seeds 0:10000``: plays these seeds. A seed that fails is named, made short and printed.

``--plant NAME`` plants a defect of ``tests/simulator/plants.py`` first; ``--plants`` says for each of them which seed finds it.
"""

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.simulator.plants import PLANTS, planted
from tests.simulator.play import Played, play
from tests.simulator.script import Script, script_of
from tests.simulator.shrink import kind_of, shrink
from tests.support import results


def played(seed: int, plant: str = "") -> tuple[int, Played]:
    """One seed, for a process of its own."""
    logging.disable(logging.CRITICAL)
    with planted(plant):
        return seed, play(script_of(seed))


def shortened(seed: int, plant: str = "") -> tuple[Script, str]:
    """The short script of a failing seed, and what breaks in it."""
    with planted(plant):
        kind = kind_of(play(script_of(seed)).broken[0])

        def fails(script: Script) -> bool:
            return any(kind_of(text) == kind for text in play(script).broken)

        script = shrink(script_of(seed), fails)
        return script, next(text for text in play(script).broken if kind_of(text) == kind)


def all_played(seeds: Iterable[int], plant: str, jobs: int) -> Iterator[tuple[int, Played]]:
    if jobs == 1:
        yield from (played(seed, plant) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(played, seeds, [plant] * len([*seeds]), chunksize=20)


def find_plants(seeds: Iterable[int]) -> int:
    """For each planted defect, the first seed that finds it."""
    missed = 0
    for name in PLANTS:
        found = next(((seed, end) for seed in seeds if (end := played(seed, name)[1]).broken), None)
        missed += found is None
        print(
            f"{name}: " + ("not found" if found is None else f"seed {found[0]}: {found[1].broken[0]}"),
            flush=True,
        )
    return missed


def main() -> int:
    """Play the seeds of the command line; 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:10000", help="FIRST:BEHIND_LAST, or one seed")
    parser.add_argument("--plant", default="", choices=["", *PLANTS])
    parser.add_argument("--plants", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    results.add_option(parser)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    first, _, last = given.seeds.partition(":")
    seeds = range(int(first), int(last or int(first) + 1))
    if given.plants:
        return find_plants(seeds)
    began, began_at = time.process_time(), time.monotonic()
    total, failed = Counter[str](), list[int]()
    for seed, end in all_played(seeds, given.plant, given.jobs):
        total += end.counts
        if end.broken:
            failed.append(seed)
            print(f"seed {seed}, trace {end.digest}: {end.broken[0]}", flush=True)
            if len(failed) == 1:
                script, text = shortened(seed, given.plant)
                print(f"in {len(script.lines)} lines: {text}\n{script}", flush=True)
                plant = f" --plant {given.plant}" if given.plant else ""
                print(f"again: python -m tests.simulator --seeds {seed}{plant}", flush=True)
    times = os.times()  # with those of the jobs, which have ended
    passed_s = times.user + times.system + times.children_user + times.children_system - began
    counts = {what: number for what, number in sorted(total.items()) if not what.startswith("end ")}
    speed = round(60 * len(seeds) / passed_s)
    print(", ".join(f"{number:,} {what}" for what, number in counts.items()))
    print(f"{len(seeds):,} seeds, {speed:,} a minute of one core; failed: {failed or 'none'}")
    kept = {"seeds": len(seeds), "failed seeds": len(failed), **counts, "seeds a minute of one core": speed}
    results.save(given.results, kept, seconds=time.monotonic() - began_at, passed=not failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
