"""Locks on bytes: both kinds behave alike, so that what runs on Linux shows what runs elsewhere."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.stores.sqlite.locks.bytelock import Byte, DescriptorByte, FileByte, open_lock_file

Make = Callable[[], Byte]


@pytest.fixture(params=["descriptor", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """One byte of one file, as another descriptor each time."""
    path = str(tmp_path / "side")

    def byte() -> Byte:
        return DescriptorByte(open_lock_file(path), 7) if request.param == "descriptor" else FileByte(path, 7)

    return byte


def test_one_at_a_time(make: Make) -> None:
    """Taken, it is seen by the other and not by oneself; let go, it can be had."""
    one, other = make(), make()
    assert one.try_lock()
    assert other.is_taken()
    assert not other.try_lock()
    assert one.try_lock(), "who has it has it"
    one.unlock()
    assert not other.is_taken()
    assert other.try_lock()
    other.unlock()
    other.unlock()


def test_reading_the_file_takes_nothing_away(make: Make, tmp_path: Path) -> None:
    """Planted once: with locks of the process, closing the file after reading it let the byte go."""
    one, other = make(), make()
    assert one.try_lock()
    for file in tmp_path.iterdir():
        file.read_bytes()
    assert other.is_taken()


def test_a_dead_process_has_none(make: Make, tmp_path: Path) -> None:
    """However it ends."""
    assert make().try_lock()
    kind = type(make()).__name__
    code = (
        f"import os, sys\nfrom holdfast.stores.sqlite.locks.bytelock import *\nfrom holdfast.stores.sqlite.locks.bytelock import {kind}\n"
        f"path = sys.argv[1]\nbyte = DescriptorByte(open_lock_file(path), 9) if {kind == 'DescriptorByte'} else FileByte(path, 9)\n"
        "assert byte.try_lock()\nprint('held', flush=True)\nsys.stdin.read()"
    )
    path = str(tmp_path / "side")
    process = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    seen: Byte = DescriptorByte(open_lock_file(path), 9) if kind == "DescriptorByte" else FileByte(path, 9)
    assert seen.is_taken()
    process.kill()
    process.communicate()
    assert not seen.is_taken()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Somebody else's file is not opened through one."""
    (tmp_path / "target").write_text("mine")
    os.symlink(tmp_path / "target", tmp_path / "side")
    with pytest.raises(OSError, match="symbolic links"):
        open_lock_file(str(tmp_path / "side"))
