"""``make soak``: agents on every store, and all that can happen to them; then the books are checked.

Each store has a process of its own, with its own workers. Exits 1 if the books of any are not right.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.long.soak import killer, ledgers
from tests.long.soak.places import KINDS, place_of
from tests.support import results

ROOT = Path(__file__).parents[3]


def main() -> int:
    options = _options()
    if options.one:
        return _one(options)
    began = time.monotonic()
    stores = options.stores.split(",")
    told = [_told_by(process) for process in [_start(one, options) for one in stores]]
    counts: Counter[str] = Counter()
    for kind, books in zip(stores, told, strict=True):
        print(f"{kind}: {json.dumps(books, sort_keys=True)}")
        counts.update(books.get("counts", {}))
    wrong = [f"{kind}: {line}" for kind, books in zip(stores, told, strict=True) for line in books["wrong"]]
    seconds = round(time.monotonic() - began)
    print(
        f"kills survived: {counts['kills']}, effects checked: {counts['effects checked']}, records verified: "
        f"{counts['records verified']}, seeds: {options.seed} on {', '.join(stores)}; {seconds} s"
    )
    for line in wrong[:60]:
        print(f"wrong: {line}")
    kept = {**counts, "seeds": 1, "stores": len(stores), "wrong": len(wrong)}
    results.save(options.results, kept, seconds=seconds, passed=not wrong)
    return 1 if wrong else 0


def _start(kind: str, options: argparse.Namespace) -> "subprocess.Popen[str]":
    given = ["--one", kind, "--seconds", options.seconds, "--runs", options.runs, "--every", options.every]
    given += ["--wait", options.wait, "--seed", options.seed]
    command = [sys.executable, "-W", "ignore", "-m", "tests.long.soak", *map(str, given)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _told_by(process: "subprocess.Popen[str]") -> dict[str, Any]:
    output, _ = process.communicate()
    try:
        told: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        return {"wrong": [f"it ended with {process.returncode}: {output[-2000:]}"]}
    return told


def _one(options: argparse.Namespace) -> int:
    """The soak of one store; its books as a line of JSON."""
    place = place_of(options.one)
    os.environ.update(place.environment)
    plan = killer.Plan(place, options.seconds, options.runs, options.every, options.wait, options.seed)
    wrong = ["it was cut off"]
    try:
        course = killer.conduct(plan, lambda text: print(text, file=sys.stderr, flush=True))
        books = ledgers.examine(place)
        wrong = books.wrong + ([] if course.in_time else ["not all runs came to stand still in time"])
    finally:
        place.end(is_kept=bool(wrong))
    told = {
        "counts": {**course.done, **books.counts},
        "refused": course.refused,
        "statuses": books.statuses,
        "exits": Counter(map(str, course.exits)),
        "seconds": round(course.took_s),
        "wrong": wrong,
    }
    print(json.dumps(told))
    if wrong:
        print(f"what the workers told, and the world's files: {place.path}", file=sys.stderr)
    else:
        shutil.rmtree(place.path)
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.long.soak", description=__doc__)
    parser.add_argument("--stores", default=",".join(KINDS), help="the kinds, with commas in between")
    parser.add_argument("--one", choices=KINDS, help="in this process, one store")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long everything is disturbed")
    parser.add_argument("--runs", type=int, default=40, help="for each store; half of them have a child")
    parser.add_argument("--every", type=float, default=3.0, metavar="S", help="how often something happens")
    parser.add_argument("--wait", type=float, default=300.0, help="for the runs to end after that")
    parser.add_argument("--seed", type=int, default=1)
    results.add_option(parser)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
