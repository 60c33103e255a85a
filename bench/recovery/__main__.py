"""``make bench-recovery``: kill the drivers, print what it cost. Exits 1 if Holdfast repeats, doubles, forgets or loses anything."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

import holdfast
from bench.recovery.director import ROOT, kills_of, run
from bench.recovery.drivers import DRIVERS, Driver
from bench.recovery.report import NOTHING_OF, Row, facts_of, markdown_of, row_of, table_of, wins_of


def main() -> int:
    options = _options()
    first, last = (int(end) for end in options.seeds.split(":"))
    seeds = range(first, last)
    drivers = [driver for driver in DRIVERS if options.only.lower() in driver.name.lower()]
    for driver in [one for one in drivers if not (ROOT / one.environment).exists()]:
        print(f"{driver.name} is left out: there is no {driver.environment}", file=sys.stderr)
        drivers.remove(driver)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as made:
        place = Path(options.keep or made)
        place.mkdir(exist_ok=True)
        with ThreadPoolExecutor(options.parallel) as pool:
            rows = list(pool.map(lambda one: _row(one, place, seeds, options.kills), drivers))
    told = {
        "date": datetime.now(UTC).date().isoformat(),
        "command": f"python -m bench.recovery --seeds {options.seeds} --kills {options.kills}",
        "seeds": list(seeds),
        "kills_per_seed": options.kills,
        "load": round(os.getloadavg()[2], 1),
        "versions": _versions(drivers),
        "rows": [facts_of(row) for row in rows],
        "wins": wins_of(rows),
    }
    if options.results:
        Path(options.results).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    if options.json:
        json.dump(told, sys.stdout, indent=2)
        print()
    elif options.markdown:
        print(markdown_of(rows))
    else:
        _show(rows, told)
    return int(any(row.figures[name] for row in rows if row.driver.is_held for name in NOTHING_OF))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__)
    parser.add_argument("--seeds", default="1:7", help="the first, and the one after the last")
    parser.add_argument(
        "--kills",
        type=int,
        choices=(1, 2, 3),
        default=3,
        help="of each seed: at a model call, in a payment, in another tool",
    )
    parser.add_argument("--only", default="", help="drivers whose name has this in it")
    parser.add_argument("--parallel", type=int, default=2, help="drivers at a time")
    parser.add_argument("--results", default="", help="write all figures as JSON to this file")
    parser.add_argument("--keep", default="", help="keep all logs and outputs in this directory")
    parser.add_argument("--json", action="store_true", help="all figures as JSON")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    return parser.parse_args()


def _row(driver: Driver, place: Path, seeds: Sequence[int], kills: int) -> Row:
    home = place / f"{driver.framework}-{driver.way}".replace(" ", "-")
    calm = run(driver, home / "calm", 0, [])
    assert calm.verdict.finished, f"{driver.name} does not do the task undisturbed: {calm.verdict.error}"
    outcomes = [run(driver, home / str(seed), seed, kills_of(seed, kills), calm.tokens) for seed in seeds]
    row = row_of(driver, calm, outcomes)
    (home / "row.json").write_text(json.dumps(facts_of(row), indent=2), encoding="utf-8")
    print(f"{driver.name}: done", file=sys.stderr, flush=True)
    return row


def _versions(drivers: Sequence[Driver]) -> dict[str, str]:
    """What is installed where the drivers ran."""
    versions = {"holdfast": holdfast.__version__, "python": platform.python_version()}
    for driver in drivers:
        code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
        python = str(ROOT / driver.environment / "bin" / "python")
        found = subprocess.run(
            [python, "-c", code, *driver.packages], check=True, capture_output=True, text=True
        )
        for package, version in zip(driver.packages, found.stdout.split(), strict=True):
            shared = package in {"openai", "boto3"}
            versions[f"{package} ({driver.environment})" if shared else package] = version
    return versions


def _show(rows: Sequence[Row], told: dict[str, Any]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table_of(rows))
    console.print(
        f"{told['date']}, seeds {told['seeds']}, {told['kills_per_seed']} kills each; medians of times"
    )
    console.print(", ".join(f"{name} {version}" for name, version in told["versions"].items()))
    for row in rows:
        for error in row.errors:
            console.print(f"{row.driver.name} stopped for good: {error}", markup=False)
    console.print("[bold]Where a peer is better[/]" if told["wins"] else "No peer is better in any figure.")
    for line in told["wins"]:
        console.print(f"- {line}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
