"""``make bench-peers``: the same agent on Holdfast and on each peer, in turns. Prints the table; writes the plot and the figures."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from tests.support.postgres.server import Server

from bench.peers.director import (
    ROOT,
    World,
    branched,
    crowd,
    dropped,
    installed_mb,
    record,
    syncs_a_step,
    versions_of,
)
from bench.peers.drivers import DRIVERS
from bench.peers.plots import plots_of
from bench.peers.report import (
    TABLE_AGENTS,
    TABLE_STEPS,
    TABLES,
    Row,
    facts_of,
    markdown_of,
    row_of,
    table_of,
    wins_of,
)

LIMIT_OF_THE_TABLE: Final = 3
"""What is in the table is done to its end, if at all possible: it has so many times as long."""
CROWD_LIMIT: Final = 2
"""Agents that run at once have so many times as long as one that records."""


def main() -> int:
    options = _options()
    drivers = [one for one in DRIVERS if options.only.lower() in one.name.lower()]
    for driver in [one for one in drivers if not (ROOT / one.environment).exists()]:
        print(f"{driver.name} is left out: there is no {driver.environment}", file=sys.stderr)
        drivers.remove(driver)
    rows = [Row(driver, {}, {}) for driver in drivers]
    found: dict[str, Any] = {}
    if options.again:
        found |= json.loads(Path(options.again).read_text(encoding="utf-8"))
        by_name = {facts["driver"]: facts for facts in found["rows"]}
        rows = [row_of(by_name[row.driver.name], row.driver) for row in rows if row.driver.name in by_name]
    else:
        found |= {
            "target": "bench-peers",
            "date": datetime.now(UTC).date().isoformat(),
            "commit": _commit(),
            "machine": f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}",
            "versions": {name: version for row in rows for name, version in versions_of(row.driver).items()},
            "rounds": options.rounds,
            "limit_s": options.limit_s,
            "load": [],
        }
    _measure_all(rows, options, lambda: _keep(found, rows, options))
    _write(found, rows, options)
    _tell(rows, found, options)
    return 0


def _keep(found: dict[str, Any], rows: list[Row], options: argparse.Namespace) -> None:
    """Write down what is measured until now: a run that is ended before its end has that."""
    found["load"].append(round(os.getloadavg()[0], 1))
    _write(found, rows, options)


def _write(found: dict[str, Any], rows: list[Row], options: argparse.Namespace) -> None:
    found |= {
        "rows": [facts_of(row) for row in rows],
        "wins": wins_of(rows),
        "tables": {name: markdown_of(table_of(rows, columns)) for name, columns in TABLES.items()},
    }
    if options.results:
        text = json.dumps(found, indent=1, ensure_ascii=False)
        Path(options.results).write_text(text + "\n", encoding="utf-8")


def _measure_all(rows: list[Row], options: argparse.Namespace, keep: Callable[[], None]) -> None:
    measures = bool(options.steps or options.agents or options.histories)
    needs_server = measures and any(row.driver.server for row in rows)
    server = Server.started(within="/var/tmp", settings={"max_connections": "300"}) if needs_server else None
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=options.place) as made:
            world = World(Path(made), server, options.limit_s * CROWD_LIMIT)
            _measure(rows, world, options, keep)
            if options.histories:
                _measure_histories(rows, world, keep)
    finally:
        if server is not None:
            server.remove()
    if options.install:
        _say("installations")
        rows[:] = [row._replace(installed_mb=installed_mb(row.driver)) for row in rows]
        keep()


def _measure(rows: list[Row], world: World, options: argparse.Namespace, keep: Callable[[], None]) -> None:
    """Size by size, and several rounds of those that are told most of; in each, another driver comes first."""
    for steps in options.steps:
        rounds = options.rounds if steps == TABLE_STEPS else 1
        for number in range(rounds):
            _say(f"{steps:,} steps, round {number + 1} of {rounds}")
            for row in _turned(rows, number):
                try:
                    limit_s = options.limit_s * (LIMIT_OF_THE_TABLE if steps <= TABLE_STEPS else 1)
                    recorded = record(row.driver, world, steps, limit_s)
                except (
                    RuntimeError,
                    subprocess.TimeoutExpired,
                ) as failed:  # the others are measured all the same
                    _say(f"{row.driver.name} has no {steps:,} steps: {failed}")
                    continue
                row.recorded.setdefault(steps, []).append(recorded)
            keep()
    for agents in options.agents:
        rounds = options.rounds if agents == TABLE_AGENTS else 1
        for number in range(rounds):
            _say(f"{agents:,} agents at once, round {number + 1} of {rounds}")
            for row in _turned(rows, number):
                taken = crowd(row.driver, world, agents) if "crowd" in row.driver.can else None
                row.crowds.setdefault(agents, []).extend([] if taken is None else [taken])
            keep()


def _measure_histories(rows: list[Row], world: World, keep: Callable[[], None]) -> None:
    _say("branches, diffs, prunes, syncs")
    for at, row in enumerate(rows):
        rows[at] = row._replace(
            branched=branched(row.driver, world, TABLE_STEPS),
            dropped=dropped(row.driver, world),
            syncs=syncs_a_step(row.driver, world),
        )
        keep()


def _turned(rows: list[Row], number: int) -> list[Row]:
    at = number % len(rows)
    return [*rows[at:], *rows[:at]]


def _say(what: str) -> None:
    print(
        f"{datetime.now(UTC):%H:%M:%S} load {os.getloadavg()[0]:.1f}: {what} …", file=sys.stderr, flush=True
    )


def _tell(rows: list[Row], found: dict[str, Any], options: argparse.Namespace) -> None:
    console = Console(width=None if sys.stdout.isatty() else 220)
    for title, columns in TABLES.items():
        lines = table_of(rows, columns)
        table = Table(*lines[0], title=title)
        for line in lines[1:]:
            table.add_row(*line)
        console.print(table)
    load = f"{min(found['load'])} to {max(found['load'])}"
    console.print(
        f"{found['date']}; steps of 4 KB, {found['rounds']} rounds in turns of {TABLE_STEPS:,} steps and of "
        f"{TABLE_AGENTS} agents; {found['machine']}; load {load}"
    )
    console.print(", ".join(f"{name} {version}" for name, version in found["versions"].items()), markup=False)
    console.print("Where a peer is better:" if found["wins"] else "No peer is better in any figure.")
    for win in found["wins"]:
        console.print(f"- {win}", markup=False)
    if options.plots:
        plots_of(rows, Path(options.plots))


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
        "--limit-s", type=float, default=30.0, help="of one recording: who needs longer is stopped there"
    )
    parser.add_argument("--only", default="", help="drivers whose name has this in it")
    parser.add_argument("--place", default=".", help="the directory whose disk is used")
    parser.add_argument(
        "--no-install", dest="install", action="store_false", help="do not install each peer to weigh it"
    )
    parser.add_argument(
        "--again",
        default="",
        help="go on with the figures of this file; without steps and agents, tell them again",
    )
    parser.add_argument(
        "--no-histories", dest="histories", action="store_false", help="no branches, diffs, prunes and syncs"
    )
    parser.add_argument("--plots", default="", help="write the plots into this directory")
    parser.add_argument("--results", default="", help="write all figures as JSON to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
