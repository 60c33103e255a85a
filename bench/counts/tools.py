"""Counts from outside of the process: instructions and allocations by callgrind, calls of the system by strace."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

SYNCS: Final = ("fsync", "fdatasync")
READS: Final = ("pread64", "read")
WRITES: Final = ("pwrite64", "pwritev", "write")
_FILES: Final = f"trace={','.join((*SYNCS, *READS, *WRITES))}"
_NAMED: Final = re.compile(r"\((\d+)\)(?: (.*))?")
_ALLOCATES: Final = ("_PyObject_Malloc", "PyObject_Malloc")
"""Where an object's memory comes from, unless a free list has some. The first is called by the second; a stripped Python has
no name for it."""


def missing() -> str:
    """Which of the tools this machine lacks, and how to get them; empty if none."""
    lacks = [tool for tool in ("valgrind", "strace") if shutil.which(tool) is None]
    return f"sudo apt-get install {' '.join(lacks)}" if lacks else ""


def instructions(command: Sequence[str], environment: Mapping[str, str]) -> Counter[str]:
    """How many instructions a process took, and how often it asked for memory for an object."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "callgrind.out"
        tool = ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={out}"]
        subprocess.run([*tool, sys.executable, *command], check=True, env=environment)
        return _parsed(out.read_text(errors="replace"))


def _parsed(text: str) -> Counter[str]:
    names: dict[str, str] = {}
    calls: Counter[str] = Counter()
    called, total = "", 0
    for line in text.splitlines():
        if line.startswith(("fn=", "cfn=")):
            found = _NAMED.match(line.partition("=")[2])
            assert found is not None, line
            number, name = found.groups()
            if name is not None:
                names[number] = name
            called = names[number]
        elif line.startswith("calls="):
            calls[called] += int(line[len("calls=") :].split()[0])
        elif line.startswith(("summary:", "totals:")):
            total = int(line.split()[1])
    allocations = next((calls[name] for name in _ALLOCATES if calls[name]), 0)
    return Counter({"instructions": total, "allocations": allocations})


def system_calls(command: Sequence[str], environment: Mapping[str, str]) -> Counter[str]:
    """How often a process, with its threads, has synced, read and written."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "strace.out"
        tool = ["strace", "-f", "-qq", "-e", _FILES, "-o", str(out)]
        subprocess.run([*tool, sys.executable, *command], check=True, env=environment)
        found: Counter[str] = Counter()
        for line in out.read_text(errors="replace").splitlines():
            name = line.split(None, 1)[-1].partition("(")[0]
            for group, calls in (("syncs", SYNCS), ("preads", READS[:1]), ("pwrites", WRITES[:1])):
                found[group] += name in calls
        return found
