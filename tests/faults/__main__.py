"""``make faults``: thousands of schedules, each from its seed; what was injected, and what became of it.

Exits 1 if a promise was broken, and says how to see that schedule alone: ``python -m tests.faults --seeds 213 --show``.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.faults.laboratory import laboratory
from tests.faults.schedule import THEMES, make_schedule
from tests.faults.world import Outcome, story
from tests.support import results


def main() -> int:
    options = _options()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-faults-") as name, laboratory(Path(name)) as run:
        schedules = [
            made for made in map(make_schedule, options.seeds) if options.theme in (None, made.theme)
        ]
        with ThreadPoolExecutor(options.jobs) as workers:
            outcomes = []
            for outcome in workers.map(
                lambda made: run(made, cuts=options.cuts, plants=options.plant), schedules
            ):
                outcomes.append(outcome)
                if outcome.violations or options.show:
                    print(story(outcome, with_steps=options.show), flush=True)
    broken = sum(bool(outcome.violations) for outcome in outcomes)
    took_s = time.monotonic() - began
    _show(outcomes, broken, took_s)
    counts = {
        "schedules": len(outcomes),
        "broken": broken,
        **_in_all(outcome.counts for outcome in outcomes),
        "injected faults": _in_all(outcome.faults for outcome in outcomes).total(),
    }
    results.save(options.results, counts, seconds=took_s, passed=not broken)
    return int(broken > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seeds", type=_seeds, default=range(2_600), metavar="N|FROM:TO")
    parser.add_argument("--theme", choices=list(THEMES), help="only schedules of this one")
    parser.add_argument(
        "--cuts", type=int, default=6, help="power cuts a schedule, beside those in its middle"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--plant", action="append", default=[], help="a defect of plants.py, or a file with plant()"
    )
    parser.add_argument("--show", action="store_true", help="print every step and what was said")
    results.add_option(parser)
    return parser.parse_args()


def _seeds(text: str) -> range:
    first, _, behind = text.partition(":")
    return range(int(first), int(behind) if behind else int(first) + 1)


def _in_all(counted: Iterable[Counter[str]]) -> Counter[str]:
    return sum(counted, Counter[str]())


def _show(outcomes: list[Outcome], broken: int, took_s: float) -> None:
    console = Console(width=None if sys.stdout.isatty() else 110)
    themes = Table("theme", "schedules", "broken", "how")
    for theme in THEMES:
        of_it = [outcome for outcome in outcomes if outcome.schedule.theme == theme]
        kinds = Counter(kind for outcome in of_it for kind in {made.kind for made in outcome.violations})
        told = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        if of_it:
            themes.add_row(theme, str(len(of_it)), str(sum(bool(each.violations) for each in of_it)), told)
    console.print(themes)
    for title, counted in (
        ("injected", _in_all(outcome.faults for outcome in outcomes)),
        ("typed errors that surfaced", _in_all(outcome.errors for outcome in outcomes)),
        ("in all", _in_all(outcome.counts for outcome in outcomes)),
    ):
        table = Table(title, "count")
        for name, count in sorted(counted.items(), key=lambda each: -each[1]):
            table.add_row(name, f"{count:,}")
        console.print(table)
    print(f"{len(outcomes):,} schedules, {broken:,} with a broken promise; {took_s:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
