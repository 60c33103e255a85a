"""Earlier states of the package, taken out of the project's own history, for processes of their own.

A clone without its history cannot run these tests, and says so: ``git fetch --unshallow``.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FORMAT_1: Final = "07c3e8751b5b9b9ea410c1ff7f39210cfeb27d53"
"""The last state that wrote format 1."""
FORMAT_2: Final = "6c89610dc3744d9c7e2694362e06493bf2295acf"
"""The first state that wrote format 2."""


def unpacked(commit: str, place: Path) -> Path:
    """The package as that commit had it; its place, for the path of a process."""
    place.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", commit, "src/holdfast"], cwd=ROOT, capture_output=True, check=False
    )
    assert archive.returncode == 0, (
        f"the history has no {commit[:8]}, run `git fetch --unshallow`: {archive.stderr.decode()}"
    )
    subprocess.run(["tar", "x", "-C", str(place)], input=archive.stdout, check=True)
    return place / "src"


class Process:
    """A Python with this package in it, which does one act a line and answers with one line."""

    def __init__(self, package: Path, url: str, place: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("older_acts.py")), url],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(package), "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def do(self, *act: str) -> str:
        """What came of it: ``ok …``, or the name of an error and its text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(act) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        return line.rstrip("\n")

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        """End it as a program ends."""
        self._process.communicate("", timeout=60)
