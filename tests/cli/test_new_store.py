"""A program that makes a new store says so on stderr, because its runs may be in another one.

Seen before: started from another directory, a program made a new store without a word, and everything ran again.
"""

import sys
from pathlib import Path

import pytest
from tests.cli.test_planned_pauses import environment
from tests.support import forked

pytestmark = pytest.mark.slow

PROGRAM = """
import holdfast

with holdfast.run("r"{options}) as run:
    run.step("s", lambda: 1)
"""


def start(
    place: Path, *, options: str = "", env: dict[str, str] | None = None, cwd: Path | None = None
) -> str:
    """What the program wrote to stderr."""
    place.mkdir(exist_ok=True)
    (place / "agent.py").write_text(PROGRAM.format(options=options), encoding="utf-8")
    done = forked.run(
        [sys.executable, str(place / "agent.py")],
        cwd=cwd or place,
        env=environment(env),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return str(done.stderr)


def test_a_new_store_is_named_once(tmp_path: Path) -> None:
    """One line with its path when it is made; nothing when it is there."""
    made = tmp_path / "agents" / ".holdfast" / "holdfast.db"
    assert start(tmp_path / "agents") == f"holdfast: made a new store, {made}\n"
    assert start(tmp_path / "agents") == ""


def test_a_store_near_the_program_is_named(tmp_path: Path) -> None:
    """Started elsewhere, the program's own store is not found: the line says where it is, and how to use it."""
    start(tmp_path / "agents")
    (tmp_path / "elsewhere").mkdir()
    known = tmp_path / "agents" / ".holdfast" / "holdfast.db"
    made = tmp_path / "elsewhere" / ".holdfast" / "holdfast.db"
    told = start(tmp_path / "agents", cwd=tmp_path / "elsewhere")
    assert told == (
        f"holdfast: made a new store, {made}; there is one at {known}, near the program: "
        f"HOLDFAST_URL={known} uses that one\n"
    )
    assert start(tmp_path / "agents", cwd=tmp_path / "elsewhere", env={"HOLDFAST_URL": str(known)}) == ""


@pytest.mark.parametrize(
    ("options", "env", "is_told"),
    [
        (', store="runs.db"', {}, True),
        (', store="sqlite:///runs.db"', {}, True),
        ("", {"HOLDFAST_URL": "runs.db"}, True),
        (', store="{place}/runs.db"', {}, False),
        ("", {"HOLDFAST_URL": "sqlite:///{place}/runs.db"}, False),
        (', store="memory://x"', {}, False),
    ],
)
def test_where_a_directory_decides(
    options: str, env: dict[str, str], *, is_told: bool, tmp_path: Path
) -> None:
    """A relative path depends on the directory, as the default does. An absolute one says itself where it is."""
    place = tmp_path / "agents"
    told = start(
        place,
        options=options.format(place=place),
        env={name: value.format(place=place) for name, value in env.items()},
    )
    assert told == (f"holdfast: made a new store, {place / 'runs.db'}\n" if is_told else "")
