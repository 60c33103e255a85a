"""``make bench-peers``: the same agent on Holdfast and on each peer, in turns. Prints the table; writes the plot and the figures."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tests.support.postgres.server import Server

from bench.peers.director import (
    ROOT,
    World,
    crowd_s,
    fork_s,
    installed_mb,
    record,
    syncs_a_step,
    versions_of,
)
from bench.peers.drivers import DRIVERS, Driver
from bench.peers.report import TABLE_STEPS, Row, facts_of, markdown_of, plots_of, table_of, wins_of


def main() -> int:
    options = _options()
    drivers = [one for one in DRIVERS if options.only.lower() in one.name.lower()]
    for driver in [one for one in drivers if not (ROOT / one.environment).exists()]:
        print(f"{driver.name} is left out: there is no {driver.environment}", file=sys.stderr)
        drivers.remove(driver)
    rows = [Row(driver, {}, {}, None, None, None) for driver in drivers]
    server = (
        Server.started(within="/var/tmp", settings={"max_connections": "300"}) if _needs(drivers) else None
    )
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=options.place) as made:
            _measure(rows, World(Path(made), server), options)
    finally:
        if server is not None:
            server.remove()
    if options.install:
        rows = [row._replace(installed_mb=installed_mb(row.driver)) for row in rows]
    _tell(rows, options)
    return 0


def _needs(drivers: list[Driver]) -> bool:
    return any(driver.server for driver in drivers)


def _measure(rows: list[Row], world: World, options: argparse.Namespace) -> None:
    """Round by round, size by size; in each round every driver comes first in its turn."""
    for steps in options.steps:
        rounds = options.rounds if steps <= TABLE_STEPS else 1
        for number in range(rounds):
            print(f"{steps:,} steps, round {number + 1} of {rounds} …", file=sys.stderr, flush=True)
            for at in range(len(rows)):
                row = rows[(at + number) % len(rows)]
                row.recorded.setdefault(steps, []).append(record(row.driver, world, steps, options.limit_s))
    for agents in options.agents:
        for number in range(options.rounds if agents < TABLE_STEPS else 1):
            print(f"{agents:,} agents at once, round {number + 1} …", file=sys.stderr, flush=True)
            for at in range(len(rows)):
                row = rows[(at + number) % len(rows)]
                taken = crowd_s(row.driver, world, agents) if row.driver.crowds else None
                row.crowds.setdefault(agents, []).extend([] if taken is None else [taken])
    print("branches, syncs …", file=sys.stderr, flush=True)
    for at, row in enumerate(rows):
        rows[at] = row._replace(
            fork=fork_s(row.driver, world, TABLE_STEPS) if row.driver.forks else None,
            syncs=None if row.driver.server else syncs_a_step(row.driver, world),
        )


def _tell(rows: list[Row], options: argparse.Namespace) -> None:
    lines, wins = table_of(rows), wins_of(rows)
    console = Console(width=None if sys.stdout.isatty() else 220)
    table = Table(*lines[0])
    for line in lines[1:]:
        table.add_row(*line)
    versions: dict[str, str] = {"python": platform.python_version()}
    for row in rows:
        versions |= versions_of(row.driver)
    date = datetime.now(UTC).date().isoformat()
    if options.markdown:
        print(markdown_of(lines))
    else:
        console.print(table)
    console.print(
        f"{date}; {TABLE_STEPS:,} steps of 4 KB, medians of {options.rounds} rounds in turns; load {os.getloadavg()[2]:.1f}"
    )
    console.print(", ".join(f"{name} {version}" for name, version in versions.items()), markup=False)
    console.print("Where a peer is better:" if wins else "No peer is better in any figure.")
    for win in wins:
        console.print(f"- {win}", markup=False)
    if options.plots:
        plots_of(rows, Path(options.plots))
    if options.results:
        found: dict[str, Any] = {
            "target": "bench-peers",
            "date": date,
            "commit": _commit(),
            "command": "make bench-peers",
            "versions": versions,
            "load": round(os.getloadavg()[2], 1),
            "rounds": options.rounds,
            "rows": [facts_of(row) for row in rows],
            "wins": wins,
            "table": markdown_of(lines),
        }
        Path(options.results).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--steps", type=int, nargs="*", default=[10, 100, 1_000, 10_000])
    parser.add_argument("--agents", type=int, nargs="*", default=[1, 10, 100, 1_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit-s", type=float, default=60.0, help="of one recording: who needs longer is stopped there"
    )
    parser.add_argument("--only", default="", help="drivers whose name has this in it")
    parser.add_argument("--place", default=".", help="the directory whose disk is used")
    parser.add_argument(
        "--no-install", dest="install", action="store_false", help="do not install each peer to weigh it"
    )
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--plots", default="", help="write the plots into this directory")
    parser.add_argument("--results", default="", help="write all figures as JSON to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
