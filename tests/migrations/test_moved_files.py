"""Every file of the package moves, and stores of format 1 are read as before.

A copy of the package is rearranged: ``model``, ``core``, ``engine``, ``errors`` and others get other names, everywhere but in the first
column of the table of fixed names. With that copy the runs that hold our classes and errors go on; nothing recorded runs again.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from subprocess import run

from tests.migrations.loading_1 import put_sqlite

import holdfast

MOVED = {
    "model": "nouns",
    "core": "rules",
    "engine": "motor",
    "exports": "boxes",
    "errors": "failures",
    "api": "hands",
}
PROGRAM = """
import sys
import holdfast
from tests.migrations import programs_1 as programs
from tests.migrations.values_1 import ERRORS, GIVEN, TAKEN, error_of

assert holdfast.Fact.__module__ == "holdfast.nouns.facts"
with holdfast.run("ours", store=sys.argv[1]) as run:
    found = programs.ours(run)
assert {type(found[name]).__qualname__ for name in found} == {name.rpartition(":")[2] for name in (*TAKEN, *GIVEN)}
with holdfast.run("failures", store=sys.argv[1]) as run:
    errors = programs.failures(run)
assert all(type(errors[name]) is getattr(holdfast, name) for name in ERRORS)
assert all(errors[name].fields.items() <= error_of(name).fields.items() for name in ERRORS)
assert programs.ran == [], programs.ran
print("read", len(found), "and", len(errors))
"""


def rearranged(place: Path) -> Path:
    """A copy of the package whose modules lie elsewhere."""
    package = place / "holdfast"
    shutil.copytree(Path(holdfast.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    table = package / "model" / "stored_names.py"
    for file in package.rglob("*.py"):
        text = file.read_text()
        if file == table:
            text = re.sub(
                r'^(    \(\s*"holdfast[\w.]*",\s*")holdfast\.(\w+)', _moved_row, text, flags=re.MULTILINE
            )
        else:
            text = re.sub(r"\bholdfast\.(\w+)", _moved, text)
            text = (
                re.sub(r'^(    ")(\w+)', _moved_room, text, flags=re.MULTILINE)
                if file.parent == package
                else text
            )
        file.write_text(text)
    for old, new in MOVED.items():
        for path in (package / old, package / f"{old}.py"):
            if path.exists():
                path.rename(path.with_name(path.name.replace(old, new)))
    return package


def _moved(found: re.Match[str]) -> str:
    return f"holdfast.{MOVED.get(found[1], found[1])}"


def _moved_row(found: re.Match[str]) -> str:
    return f"{found[1]}holdfast.{MOVED.get(found[2], found[2])}"


def _moved_room(found: re.Match[str]) -> str:
    return f"{found[1]}{MOVED.get(found[2], found[2])}"


def test_a_store_is_read_as_before_when_every_file_has_moved(tmp_path: Path) -> None:
    """Objects of our classes, as results and as arguments of effects, and every error."""
    rearranged(tmp_path)
    url = put_sqlite(tmp_path / "golden.db")
    root = Path(__file__).parents[2]
    told = run(
        [sys.executable, "-c", PROGRAM, url],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    assert told.stdout.startswith("read 59 and 63")
