"""Plays a newcomer: an empty environment, and only the Start pages, every block in order: ``make newcomer``.

What a page shows as a terminal is typed into one shell, as it is printed; what it shows as a program is written to a file.
At the end two agents must have been killed and finished, with nothing done twice. It counts what was typed and written.

One thing is not typed as it is printed: ``pip install .`` installs a wheel that was just built from this tree. Nothing but
the package registry is reached.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ("install", "first-kill", "your-agent")
ONE_EACH: Final = {"published.txt": "debt-cycles", "outbox.txt": "morning-report"}
"""The effect of each run: a file with one line, however often the run was killed."""
_BLOCK: Final = re.compile(r"^```(console|python)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DONE: Final = "the command is done:"
COMMAND_S: Final = 600


class Block(NamedTuple):
    """A block of a page: a line to type, or a program to write."""

    page: str
    command: str = ""
    file: str = ""
    program: str = ""


class Counted(NamedTuple):
    """What a newcomer types and writes."""

    commands: int
    files: int
    lines: int
    lines_of_ours: int

    def __str__(self) -> str:
        return (
            f"{self.commands} commands typed, {self.lines} lines written in {self.files} files; "
            f"of the agent of one's own {self.lines_of_ours} lines are for Holdfast"
        )


def blocks() -> list[Block]:
    """The blocks of the pages, in order. A program without a name is one to try, too."""
    found = []
    for page in PAGES:
        text = (ROOT / "docs" / "start" / f"{page}.md").read_text(encoding="utf-8")
        for language, name, content in _BLOCK.findall(text):
            if language == "console":
                found += [
                    Block(page, command=line) for line in re.findall(r"^\$ (.*)$", content, re.MULTILINE)
                ]
            else:
                found.append(Block(page, file=name or f"block_{len(found)}.py", program=content))
    return found


def counted(all_blocks: list[Block]) -> Counted:
    """The figures that the last of the pages quotes. Programs without a name are not written by anybody: they only run."""
    named = [block for block in all_blocks if block.program and not block.file.startswith("block_")]
    lines = [line for block in named for line in block.program.splitlines() if line.strip()]
    own = named[-1].program.splitlines()
    return Counted(
        sum(bool(block.command) for block in all_blocks),
        len(named),
        len(lines),
        sum("# added" in line or "# was:" in line for line in own),
    )


class Shell:
    """One bash that everything is typed into, so that an activated environment stays activated."""

    def __init__(self, place: Path) -> None:
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("HOLDFAST_", "PYTHON", "VIRTUAL_ENV"))}  # fmt: skip
        programs = place / "programs"
        programs.mkdir()
        (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        (programs / "python3").chmod(0o755)
        kept["PATH"] = f"{programs}:{kept['PATH']}"
        self._process = subprocess.Popen(
            ["/bin/bash"],
            cwd=place,
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, command: str) -> str:
        """Type a line; what it printed. A line that fails ends the play, unless it kills."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(f"$ {command}", flush=True)
        self._process.stdin.write(f"{command}\necho; echo '{_DONE}' $?\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith(_DONE):
                if line.split()[-1] != "0":
                    raise SystemExit("".join(printed) + f"\nit failed: {command}")
                break
            printed.append(line)
        return "".join(printed)

    def leave(self) -> None:
        """Close the shell."""
        self._process.communicate("exit\n")


def play(place: Path, wheel: Path) -> float:
    """Do what the pages say, and look at what is left; the seconds that it took."""
    began = time.monotonic()
    home = place / "newcomer"
    home.mkdir()
    shell = Shell(home)
    for block in blocks():
        if block.program:
            (home / block.file).write_text(block.program, encoding="utf-8")
            if block.file.startswith("block_"):
                shell.type(f"python {block.file}")
        else:
            shell.type(block.command.replace("pip install .", f"pip install --quiet {wheel}"))
    took = time.monotonic() - began
    for file, run in ONE_EACH.items():
        lines = (home / file).read_text(encoding="utf-8").splitlines()
        assert len(lines) == 1, f"{file} has {len(lines)} lines: {run} did it twice, or not at all"
        shown = shell.type(f"holdfast show {run} --json")
        assert '"finished"' in shown, shown
        crashed = len(re.findall(r'"how": ?"crashed"', shown))
        assert crashed == 1, f"{run} was not killed: {shown}"
    shell.leave()
    return took


def main() -> None:
    """Build the wheel, play, and print the figures."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        subprocess.run(  # noqa: S603 - our own tree
            [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "--wheel-dir",
                str(place),
                str(ROOT),
            ],
            check=True,
        )
        took_s = play(place, next(place.glob("holdfast-*.whl")))
    print(f"\n{counted(blocks())}; {took_s / 60:.1f} minutes, with what had to be downloaded")
    print("two agents were killed with SIGKILL and finished: nothing was done twice")


if __name__ == "__main__":
    main()
