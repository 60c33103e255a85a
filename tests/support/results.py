"""What a judging target counted, kept in ``docs/results/NAME.json``: ``make guarantees`` makes a page of these files.

A target that runs several programs has a file for each: ``crossings.walks.json`` is the walks' part of ``make crossings``.
The counts are the ones that the program prints. A run that failed is written down, too.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "docs" / "results"
JUDGED: Final = ("src", "tests", "bench")
"""Folders whose changes make another result possible."""


class Result(NamedTuple):
    """One file of results."""

    target: str
    date: str
    commit: str
    """The commit that was tried; with a ``+`` behind it where files of ``JUDGED`` had changed since."""
    command: str
    counts: dict[str, Any]
    seconds: float
    passed: bool = True
    rows: tuple[dict[str, str], ...] = ()
    """Single findings, where the page shows a table of them."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """``--results FILE``, which the make targets give."""
    commit_now()
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep the counts in this file")


def save(
    file: Path | None,
    counts: Mapping[str, Any],
    *,
    seconds: float,
    passed: bool,
    rows: Iterable[Mapping[str, str]] = (),
) -> None:
    """Write the counts of this process; without a file, nothing."""
    if file is None:
        return
    result = Result(
        file.name.partition(".")[0],
        datetime.now(UTC).date().isoformat(),
        commit_now(),
        _command(),
        {**counts},
        round(seconds),
        passed,
        tuple(dict(row) for row in rows),
    )
    kept = {name: value for name, value in result._asdict().items() if name != "rows" or value}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load(file: Path) -> Result:
    """The result in a file. ``passed`` and ``rows`` may be missing."""
    read = json.loads(file.read_text(encoding="utf-8"))
    return Result(**{**read, "rows": tuple(read.get("rows", ()))})


def load_all(folder: Path = RESULTS) -> dict[str, Result]:
    """All results by the name of their file, without its ending."""
    return {file.stem: load(file) for file in sorted(folder.glob("*.json"))}


def age(result: Result) -> int | None:
    """How many commits have changed the sources since; ``None`` where git cannot tell."""
    commit = result.commit.rstrip("+")
    done = _git("rev-list", "--count", f"{commit}..HEAD", "--", *JUDGED)
    return int(done) if done.isdigit() else None


@cache
def commit_now() -> str:
    """The commit that this process tries: asked for when it begins, because files may change before it ends."""
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *JUDGED)
    return _git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _command() -> str:
    """The command line as a reader may type it: without this machine's paths, and without the file of results."""
    words = [word for word in sys.orig_argv[1:] if not word.startswith("--results=")]
    while "--results" in words:
        at = words.index("--results")
        del words[at : at + 2]
    return " ".join(["python", *words])
