"""``make soak``: kill workers and restart the server for two minutes, then check the books. Exits 1 if they are not right."""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tests.long.soak import killer, ledgers
from tests.support.postgres.server import Server


def main() -> int:
    options = _options()
    place = Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    server = Server.started() if options.store == "postgresql" else None
    url = f"{server.url()}?" if server is not None else f"sqlite:///{place / 'soak.db'}?"
    plan = killer.Plan(
        place,
        f"{url}lease_s={killer.LEASE_S}",
        server,
        options.seconds,
        options.runs,
        options.kill_every,
        options.restarts if server is not None else 0,
        options.wait,
        options.seed,
    )
    began = time.monotonic()
    try:
        course = killer.conduct(plan, lambda text: print(text, file=sys.stderr, flush=True))
        books = ledgers.examine(plan.url, place, plan.runs)
    finally:
        if server is not None:
            server.remove()
    is_right = not books.wrong and course.in_time and not any(course.exits)
    _show(plan, course, books, time.monotonic() - began)
    if is_right:
        shutil.rmtree(place)
    else:
        print(f"what the workers told, and the world's files: {place}")
    return 0 if is_right else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.long.soak", description=__doc__)
    parser.add_argument("--store", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long workers are killed")
    parser.add_argument("--runs", type=int, default=100, help="each has a child")
    parser.add_argument("--kill-every", type=float, default=1.0, metavar="S")
    parser.add_argument("--restarts", type=int, default=2, help="of the server")
    parser.add_argument("--wait", type=float, default=180.0, help="for the runs to end after the last kill")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _show(plan: killer.Plan, course: killer.Course, books: ledgers.Books, took_s: float) -> None:
    table = Table("what", "counted", "must be")

    def row(what: str, counted: object, must: object = "") -> None:
        table.add_row(what, str(counted), str(must))

    row("workers killed", course.kills)
    row("server restarts", course.restarts)
    row("runs, with their children", books.runs, 2 * plan.runs)
    for status, count in sorted(books.statuses.items()):
        row(f"  {status}", count, 2 * plan.runs if status == "finished" else "")
    row("attempts", books.attempts)
    row("takeovers", books.takeovers)
    row("ledger entries", books.entries, 3 * plan.runs)
    row("  reported in doubt", books.in_doubt)
    row("  duplicates", books.duplicates, 0)
    row("  lost", books.lost, 0)
    row("finished steps made again", books.repeated, 0)
    row("workers started while the server was away", course.turned_away)
    ends = Counter(map(killer.signal_name, course.exits))
    row("workers ended", ", ".join(f"{n} with {how}" for how, n in ends.items()), "exit 0")
    row("seconds until all had ended", f"{course.took_s:.0f}", f"≤ {plan.seconds + plan.wait_s:.0f}")
    Console(width=None if sys.stdout.isatty() else 100).print(table)
    for wrong in books.wrong[:40]:
        print(f"wrong: {wrong}")
    verdict = "right" if not books.wrong else f"{len(books.wrong)} things are not as they must be"
    print(f"the books are {verdict}; {took_s:.0f} s in all")


if __name__ == "__main__":
    sys.exit(main())
