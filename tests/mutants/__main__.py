"""Plants each mutation of the table into a copy of the sources, and runs the tests that must notice it.

    python -m tests.mutants [--only WORDS] [--jobs N]

Prints a table in Markdown, and exits with 1 if a mutation survives, or does not fit the code any more.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.mutants.table import MUTATIONS, Mutation
from tests.support import results

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ROOT / "src"
_FAILED: Final = 1
"""pytest's exit code where tests ran and some failed. Another one says nothing about the mutation."""


def main() -> int:
    """Try all of them; 1 if one was not noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="those whose words hold this text")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    results.add_option(parser)
    arguments, began = parser.parse_args(), time.monotonic()
    chosen = [one for one in MUTATIONS if arguments.only.lower() in f"{one.what} {one.file}".lower()]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = list(pool.map(_tried, chosen))
    rows = [
        {"promise": one.promise, "mutation": one.what, "file": one.file, "noticed by": by}
        for one, (_, by) in zip(chosen, found, strict=True)
    ]
    print("\n| promise | mutation | file | noticed by |\n|---|---|---|---|")
    for row in rows:
        print("| {promise} | {mutation} | `{file}` | {noticed by} |".format(**row))
    missed = sum(not is_noticed for is_noticed, _ in found)
    print(f"\n{len(chosen) - missed} of {len(chosen)} mutations are noticed")
    counts = {"mutations": len(chosen), "noticed": len(chosen) - missed, "missed": missed}
    results.save(arguments.results, counts, seconds=time.monotonic() - began, passed=not missed, rows=rows)
    return 1 if missed else 0


def _tried(mutation: Mutation) -> tuple[bool, str]:
    """Whether the tests notice the mutation, and which does."""
    text = (SOURCES / "holdfast" / mutation.file).read_text(encoding="utf-8")
    if text.count(mutation.before) != 1 or mutation.before == mutation.after:
        return _told(
            mutation, is_noticed=False, by=f"does not fit: found {text.count(mutation.before)} times"
        )
    with tempfile.TemporaryDirectory() as place:
        sources = Path(place, "src")
        shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
        changed = text.replace(mutation.before, mutation.after)
        (sources / "holdfast" / mutation.file).write_text(changed, encoding="utf-8")
        # in the order of the table, the fastest first, and in one process: the first failure is enough
        options = (
            "-x",
            "-q",
            "--no-header",
            "-p",
            "no:randomly",
            "-p",
            "no:cacheprovider",
            "--timeout",
            "600",
        )
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *mutation.tests],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(sources), "HOLDFAST_TEST_EXAMPLES": "0.2"},
            capture_output=True,
            text=True,
            check=False,
        )
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode != _FAILED or not failed:
        last = (done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or ["nothing"])[-1]
        return _told(mutation, is_noticed=False, by=f"**not noticed**: {last}")
    test = failed[0].partition(" ")[2].partition(" - ")[0]  # its parameters may have spaces
    alone = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", test]
    if subprocess.run(alone, cwd=ROOT, capture_output=True, check=False).returncode != 0:
        return _told(mutation, is_noticed=False, by=f"**fails without it**: `{test}`")
    return _told(mutation, is_noticed=True, by=f"`{test.split('[')[0]}`")


def _told(mutation: Mutation, *, is_noticed: bool, by: str) -> tuple[bool, str]:
    print(f"{'noticed' if is_noticed else 'MISSED '}  {mutation.what}: {by}", file=sys.stderr, flush=True)
    return is_noticed, by


if __name__ == "__main__":
    raise SystemExit(main())
