"""Starting is quick because little is loaded: heavy modules wait until somebody needs them."""

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

HEAVY = ("asyncio", "http", "rich", "ssl", "holdfast.cli.demo")
PROBE = f"""
import sys
from holdfast.cli import main
try:
    main(sys.argv[1:])
finally:
    sys.stderr.write(" ".join(name for name in {HEAVY!r} if name in sys.modules))
"""


@pytest.mark.parametrize(
    "args", [["--version"], ["--help"], ["runs"], ["show", "debt-cycles"], ["log", "debt-cycles"]]
)
def test_nothing_heavy_is_loaded_for_a_pipe(shop: "Shop", args: list[str]) -> None:
    """Neither an event loop, nor HTTP, nor the terminal library."""
    store = [] if args[0].startswith("-") else ["--store", str(shop.path)]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *args, *store], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout


def test_a_command_loads_only_itself() -> None:
    """``runs`` does not import the other commands."""
    probe = (
        "import sys; from holdfast.cli.app import app; import click; app.get_command(click.Context(app), 'runs'); "
        "print(*sorted(m for m in sys.modules if m.startswith('holdfast.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "holdfast.cli.commands.runs" in loaded
    assert not loaded & {
        *(f"holdfast.cli.commands.{name}" for name in ("demo", "show", "log", "resolve", "doctor")),
        "holdfast.cli.demo",
        "holdfast.cli.output.terminal",
    }


def test_without_a_command_there_is_help() -> None:
    """``holdfast`` alone shows what there is, and the installed entry point is this one."""
    done = subprocess.run(
        [Path(sys.executable).parent / "holdfast"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: holdfast [OPTIONS] [COMMAND] [ARGS]...\n")
    assert re.search(r"resolve +Settle steps in doubt, or say what a stopped call is\.", done.stdout)
