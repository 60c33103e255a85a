"""The shim from Python: compiling it, steering it from inside a child, reading its log.

The numbers are those of ``shim/shim.c``. A machine without a C compiler fails here, and does not skip: what these tests
show cannot be shown in another way.
"""

import ctypes
import errno
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).parent / "shim" / "shim.c"
LOG_BYTES: Final = 1 << 30
"""The log is a sparse file: it takes what is written into it."""

FILES: Final = {"db": 1, "wal": 2, "journal": 4, "shm": 8, "side": 16, "directory": 32, "search": 64}
CALLS: Final = {"open": 1, "write": 2, "truncate": 4, "sync": 8, "unlink": 16, "rename": 32, "read": 64}
ACTIONS: Final = {
    "fail": 1,
    "short": 2,
    "full": 3,
    "kill before": 4,
    "kill after": 5,
    "kill torn": 6,
    "lose": 7,
}
TELL_EVERY_DESCRIPTOR: Final = 1
LIE_ABOUT_SYNCS: Final = 2
NO_LOCKS_OF_FILES: Final = 4

OPEN, WRITE, TRUNCATE, SYNC, LOST, UNLINK, RENAME, MARK, FAULT = range(1, 10)

_HEADER_BYTES: Final = 16384
_RECORD: Final = struct.Struct("<IBBHQqII")


def compiled(directory: Path, source: Path = SOURCE) -> Path:
    """The shim, or another library to load before all others, built with this machine's C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, (
        "tests/faults needs a C compiler (gcc or cc): faults are injected below SQLite by tests/faults/shim/shim.c"
    )
    target = directory / f"{source.stem}.so"
    # Systems that turn these on by themselves give open() and others another body, or another name, in their headers.
    plain = ["-U_FORTIFY_SOURCE", "-U_FILE_OFFSET_BITS"]
    command = [compiler, "-O2", "-Wall", "-Wextra", *plain, "-shared", "-fPIC", "-o", str(target)]
    subprocess.run([*command, str(source), "-ldl", "-lpthread"], check=True)
    return target


def new_log(path: Path) -> Path:
    """An empty log, as large as any schedule needs."""
    with path.open("wb") as file:
        file.truncate(LOG_BYTES)
    return path


class Shim:
    """The shim as the process sees it that it was loaded into."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)

    def begin(self, database: Path, log: Path, behaviour: int) -> None:
        failed = self._library.shim_begin(os.fsencode(database), os.fsencode(log), behaviour)
        assert failed == 0, os.strerror(failed)

    def rule(self, slot: int, files: int, calls: int, skip: int, count: int, action: int, error: int) -> None:
        """Let ``skip`` calls pass that match, then strike ``count`` of them; -1 is for ever."""
        self._library.shim_rule(slot, files, calls, ctypes.c_long(skip), ctypes.c_long(count), action, error)

    def lift(self) -> None:
        self._library.shim_lift()

    def mark(self, run: int, seq: int, *, is_synced: bool) -> None:
        """Say in the log that this much was acknowledged."""
        self._library.shim_mark(int(is_synced), ctypes.c_ulong(run), ctypes.c_long(seq))


class Record(NamedTuple):
    """One thing that happened to a store, in the order in which it did."""

    type: int
    kind: int
    flags: int
    inode: int
    number: int
    data: bytes


def read_log(path: Path) -> list[Record]:
    """Everything in a log, in order."""
    with path.open("rb") as file:
        used = int.from_bytes(file.read(16)[8:], "little")
        file.seek(_HEADER_BYTES)
        content = file.read(max(0, used - _HEADER_BYTES))
    return list(_records(content))


def _records(content: bytes) -> Iterator[Record]:
    place = 0
    while place < len(content):
        size, type_, kind, flags, inode, number, _, length = _RECORD.unpack_from(content, place)
        begin = place + _RECORD.size
        yield Record(type_, kind, flags, inode, number, content[begin : begin + length])
        place += size


def fault_name(record: Record) -> str:
    """A fault in words: ``EIO sync wal``."""
    call = next(name for name, bit in CALLS.items() if bit == record.flags & 0xFF)
    files = "/".join(name for name, bit in FILES.items() if bit & record.kind)
    action = next((name for name, number in ACTIONS.items() if number == record.flags >> 8), "fail")
    what = errno.errorcode.get(record.number, str(record.number)) if action in ("fail", "full") else action
    return f"{what} {call} {files}"
