"""What a fresh process loads until its first step is durable: counted, since every module costs 0.2 ms on each cold start."""

import subprocess
import sys
from pathlib import Path

OURS_MAX = 154
"""Modules of ours for a first step in a file, a new run on the embedded store. Entering and one step need 95 of them; the
others are nouns, ports and the ways out of trouble. A module that is new here needs a reason."""
OURS_IMPORTED_MAX = 2
"""For ``import holdfast`` alone."""
UNNEEDED = {
    "asyncio",
    "click",
    "concurrent.futures",
    "decimal",
    "email",
    "http",
    "importlib.metadata",
    "logging",
    "multiprocessing",
    "numpy",
    "pathlib",
    "pickle",
    "pydantic",
    "random",
    "rich",
    "secrets",
    "shutil",
    "socket",
    "sqlite3",
    "ssl",
    "statistics",
    "subprocess",
    "sysconfig",
    "tempfile",
    "textwrap",
    "traceback",
    "unittest",
    "urllib.parse",
    "zoneinfo",
    "backports.zstd",
}
"""What a blocking first step has no use for. ``orjson`` brings dataclasses, inspect, ast and json along."""

FIRST_STEP = """
import os, sys
before = set(sys.modules)
import holdfast

def work(number):
    return {"number": number}

with holdfast.run("first", store=sys.argv[1]) as run:
    run.step("work", work, 1)
    print(*(set(sys.modules) - before), flush=True)
    os._exit(0)
"""


def _loaded(code: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def _ours(loaded: set[str]) -> list[str]:
    return sorted(name for name in loaded if name.partition(".")[0] == "holdfast")


def test_a_first_step_loads_few_modules(tmp_path: Path) -> None:
    """Neither features that the run does not use, nor async handles, nor the doctor, nor the search."""
    loaded = _ours(_loaded(FIRST_STEP, str(tmp_path / "store.db")))
    assert len(loaded) <= OURS_MAX, loaded


def test_a_first_step_loads_no_heavy_part_of_python(tmp_path: Path) -> None:
    """Planted: ``socket`` for the name of this host, ``logging`` for a line that nobody can read, ``pathlib`` for a suffix."""
    assert _loaded(FIRST_STEP, str(tmp_path / "store.db")) & UNNEEDED == set()


def test_importing_loads_next_to_nothing() -> None:
    """The names; a program that only declares them pays for no engine."""
    loaded = _loaded("before = set(sys.modules)\nimport holdfast\nprint(*(set(sys.modules) - before))")
    assert len(_ours(loaded)) <= OURS_IMPORTED_MAX, loaded
    assert loaded & UNNEEDED == set()
