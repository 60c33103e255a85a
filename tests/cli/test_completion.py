"""Completion in a shell: what is offered, and that the scripts do it in the shells themselves."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import holdfast

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

BIN = Path(sys.executable).parent
DEADLINE_S = 60.0


@pytest.fixture
def filled(own_shop: "Shop") -> "Shop":
    """Two runs, one with labels."""
    with holdfast.run("debt-cycles", store=own_shop.store) as run:
        run.checkpoint({}, label="draft-1")
        run.checkpoint({}, label="draft-2")
    with holdfast.run("nightly", store=own_shop.store):
        pass
    return own_shop


def offered(line: str, store: Path) -> list[str]:
    """What ``holdfast`` answers to a shell that asks about this line."""
    environ = {**os.environ, "_HOLDFAST_COMPLETE": line, "HOLDFAST_URL": str(store)}
    done = subprocess.run([BIN / "holdfast"], env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [one.partition("\t")[0] for one in done.stdout.splitlines()]


def test_what_is_offered(filled: "Shop") -> None:
    """Commands, options, values, runs newest first, and behind an @ the labels of that run."""
    store = filled.path
    assert offered("holdfast re", store) == ["replay", "resume", "resolve", "rewind", "remember", "recall"]
    assert "--status" in offered("holdfast runs --st", store)
    assert offered("holdfast runs --status fin", store) == ["finished"]
    assert offered("holdfast show ", store) == ["nightly", "debt-cycles"]
    assert offered("holdfast show deb", store) == ["debt-cycles"]
    assert offered("holdfast fork debt-cycles@draft", store) == ["debt-cycles@draft-2", "debt-cycles@draft-1"]
    assert offered("holdfast completion ", store) == ["bash", "zsh", "fish"]


def test_nothing_is_offered_and_nothing_is_said_where_it_fails(filled: "Shop", tmp_path: Path) -> None:
    """An unknown command or run, a store that is not there, an open quote."""
    lines = (
        "holdfast nope ",
        "holdfast show zzz@",
        "holdfast show 'deb",
        f"holdfast --store {tmp_path}/x show ",
    )
    assert [offered(line, filled.path) for line in lines] == [[], [], ["debt-cycles"], []]


SETUPS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
SOURCES = {
    "bash": "source <(holdfast completion bash)",
    "zsh": "autoload -Uz compinit; compinit -u -D; source <(holdfast completion zsh)",
    "fish": "holdfast completion fish | source",
}


@pytest.mark.parametrize("shell", SETUPS)
def test_a_shell_completes_what_is_typed(filled: "Shop", shell: str) -> None:
    """A tab after half a command, half a run and half a label completes each, in the shell itself."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environ = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "HOLDFAST_URL": str(filled.path),
        "TERM": "xterm",
        "HOME": str(filled.beside),
    }
    process, master = pty.fork()
    if process == 0:  # pragma: no cover - the shell takes its place
        os.execvpe(SETUPS[shell][0], SETUPS[shell], environ)
    try:
        _type(master, f"{SOURCES[shell]}; echo rea''dy\n", "ready")
        _type(master, "echo; holdfast checkp\t", "checkpoints ")
        _type(master, "deb\t", "debt-cycles ")
        _type(master, "\x15", "")
        _type(master, "holdfast show nig\t", "nightly ")
        _type(master, "\x15", "")
        _type(master, "holdfast show debt-cycles@dr\t", "draft-")
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(master)


def _type(master: int, keys: str, wanted: str) -> None:
    """Type, and wait until that is on the screen."""
    os.write(master, keys.encode())
    seen, deadline = "", time.monotonic() + DEADLINE_S
    while wanted not in seen:
        ready, _, _ = select.select([master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{wanted!r} did not appear in {seen!r}"
        seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x08", "", os.read(master, 65536).decode(errors="replace"))
