"""Where things are measured: in memory, with syncs of 100 µs, on a file system whose syncs are fast, and on the disk.

In memory a sync costs nothing: what is left is the processor's work. A real disk of a busy machine takes milliseconds for
a commit, beside which no work of ours shows. Between them lies what a good disk does, about 100 µs for a sync. No machine
has exactly that, so it is made: files in memory, and a library under the process (``slow_sync.c``) whose syncs take as
long. Beside it, a real file system with fast syncs: ext4 in a file in memory. To mount it takes root;
``HOLDFAST_BENCH_FAST`` names a directory on another one instead.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

FAST: Final = "HOLDFAST_BENCH_FAST"
_MEMORY: Final = Path("/dev/shm")
_IMAGE_BYTES: Final = 1 << 30


class Place(NamedTuple):
    """A directory to measure in; and what is loaded below the process that does it."""

    name: str
    path: Path
    preload: str = ""


@contextmanager
def places(disk: Path) -> Iterator[list[Place]]:
    """From the fastest to the disk, as far as this machine has them. What is missing is told on stderr."""
    found: list[Place] = []
    with in_memory() as memory:
        if memory is not None:
            (memory / "free").mkdir()
            found.append(Place("in memory", memory / "free"))
            shim = slow_sync(memory)
            if shim is not None:
                (memory / "slow").mkdir()
                found.append(Place("sync of 100 µs", memory / "slow", str(shim)))
        with _fast(memory) as fast:
            if fast is not None:
                found.append(Place("fast sync", fast))
            yield [*found, Place("disk", disk)]


def slow_sync(memory: Path) -> Path | None:
    """The library whose syncs take 100 µs, compiled into this directory; None where it cannot be had."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        print("no C compiler, or not Linux: syncs of 100 µs are not measured", file=sys.stderr)
        return None
    target = memory / "slow_sync.so"
    source = Path(__file__).parent / "slow_sync.c"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(target), str(source), "-ldl"], check=True)
    return target


@contextmanager
def in_memory() -> Iterator[Path | None]:
    """A directory in memory; None if the machine has no place for one."""
    if not _MEMORY.is_dir():
        print("there is no /dev/shm: nothing is measured in memory", file=sys.stderr)
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=_MEMORY) as place:
        yield Path(place)


@contextmanager
def _fast(memory: Path | None) -> Iterator[Path | None]:
    named = os.environ.get(FAST)
    if named:
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=named) as place:
            yield Path(place)
        return
    mounted = memory / "fast" if memory is not None and _mount(memory) else None
    if mounted is None:
        print(
            f"no file system with fast syncs: be root, or set {FAST} to a directory on one", file=sys.stderr
        )
    try:
        yield mounted
    finally:
        if mounted is not None:
            subprocess.run(["umount", "--lazy", str(mounted)], check=False)


def _mount(memory: Path) -> bool:
    """Mount a new file system, which lies in a file in memory; False if that cannot be done here."""
    image, place = memory / "image", memory / "fast"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(_IMAGE_BYTES)
    commands = (["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(place)])
    try:
        return all(subprocess.run(one, capture_output=True, check=False).returncode == 0 for one in commands)
    except OSError:  # no such command
        return False
