"""The disk says no: full, read-only, unreadable, unwritable. Mounts are made in a namespace of the test's own; as
everywhere in this house, a machine where that does not work fails the test and does not skip it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import an_append, an_event, append, held

_EXEC = '\nexec "$2" -c "$3" "$1"'


def in_namespace(mounting: str, script: str, directory: Path) -> str:
    """Run a script where the mounts are its own; $1 in the mounting and argv[1] in the script are the directory."""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", mounting + _EXEC, "sh", str(directory), sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_IMPORTS = """
import os, sys
from pathlib import Path
from holdfast.errors import *
from holdfast.model.store_rows import Append
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import *
place = Path(sys.argv[1])
"""


# -- full -------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """DiskFull, again and again; everything acknowledged is there; with some space freed the same append is taken."""
    script = (
        _IMPORTS
        + """
(place / "ballast").write_bytes(bytes(300_000))
store = SqliteStore(place / "x.db")
fence, head = held(store), 0
def item():
    return Append("r", fence, head, (an_event("r", head + 1, body=bytes(20_000)),))
full = 0
while full < 3:
    try:
        head = append(store, item())
    except DiskFull as error:
        assert str(place / "x.db") in str(error)
        full += 1
assert head > 3
assert store.find_run("r").head == head
assert [event.seq for event in store.read_events("r", limit=2000)] == list(range(1, head + 1))
try:
    store.put_record("s", "k", bytes(500_000), revision=0)
except DiskFull:
    pass
else:
    sys.exit("a full disk took half a megabyte")
(place / "ballast").unlink()
for _ in range(3):
    head = append(store, item())
store.close()
store = SqliteStore(place / "x.db")
assert [event.seq for event in store.read_events("r", limit=2000)] == list(range(1, head + 1))
assert not [f for f in store.examine() if f.verdict == "failure" and f.subject not in ("free space", "sync")]
print("done")
"""
    )
    assert in_namespace('mount -t tmpfs -o size=1000k tmpfs "$1"', script, tmp_path) == "done\n"


def test_no_space_for_a_new_store_is_told(tmp_path: Path) -> None:
    """DiskFull at creation, and nothing half-made under the store's name."""
    script = (
        _IMPORTS
        + """
try:
    SqliteStore(place / "x.db")
except DiskFull:
    assert not (place / "x.db").exists()
    print("done")
"""
    )
    assert in_namespace('mount -t tmpfs -o size=16k tmpfs "$1"', script, tmp_path) == "done\n"


# -- read-only --------------------------------------------------------------------------------------------------

_READ_ONLY = """
for name in ("x.db", "new.db", "deep/new.db"):
    try:
        SqliteStore(place / name)
    except StoreReadOnly as error:
        assert str(place / name) in str(error), error
    else:
        sys.exit(name)
print("done")
"""


def test_a_read_only_mount_is_told(tmp_path: Path) -> None:
    """StoreReadOnly, for a store that is there and for one that would have to be made."""
    SqliteStore(tmp_path / "x.db").close()
    mounting = 'mount --bind "$1" "$1"; mount -o remount,ro,bind "$1"'
    assert in_namespace(mounting, _IMPORTS + _READ_ONLY, tmp_path) == "done\n"


def test_missing_permissions_are_told() -> None:
    """The same for a user who may not write there."""
    with tempfile.TemporaryDirectory() as name:  # not below tmp_path: another user cannot even enter that
        place = Path(name)
        SqliteStore(place / "x.db").close()
        (place / "x.db").chmod(0o644)
        place.chmod(0o755)
        drop = "os.setgroups([]); os.setgid(65534); os.setuid(65534)"  # late: the interpreter may be root's alone
        done = subprocess.run(
            [sys.executable, "-c", _IMPORTS + drop + _READ_ONLY, name],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


# -- I/O errors -------------------------------------------------------------------------------------------------


class BadDisk(apsw.VFS):
    """Fails what it is told to fail, and passes on the rest."""

    def __init__(self) -> None:
        self.failing: set[tuple[str, str]] = set()
        super().__init__("bad", "unix")

    def xOpen(self, name: Any, flags: list[int]) -> "BadFile":
        return BadFile(self, name, flags)


class BadFile(apsw.VFSFile):
    def __init__(self, disk: BadDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._kind = "wal" if filename.endswith("-wal") else "db"
        super().__init__("unix", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._check("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._check("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._check("sync")
        super().xSync(flags)

    def _check(self, act: str) -> None:
        if (self._kind, act) in self._disk.failing:
            raise apsw.IOError("EIO")


@pytest.fixture
def disk() -> Iterator[BadDisk]:
    bad = BadDisk()
    apsw.set_default_vfs("bad")
    yield bad
    apsw.set_default_vfs("unix")
    bad.unregister()


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("act", ["write", "sync", "read"])
def test_an_io_error_is_an_unknown_outcome_and_not_the_end(
    disk: BadDisk, tmp_path: Path, act: str, count: int
) -> None:
    """StoreUnavailable as long as it lasts; whoever then re-reads the head goes on, and a new handle agrees."""
    store = SqliteStore(tmp_path / "x.db")
    fence = held(store)
    head = append(store, an_append("r", fence, 0, synced=False))
    disk.failing = {("wal", act)}
    if act == "read":  # what is cached needs no reading; another connection's commit makes the cache stale
        other = apsw.Connection(str(store.path), vfs="unix")
        other.execute("UPDATE meta SET syncs = syncs + 1")
        other.close()
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            store.append([an_append("r", fence, head, count)])
    disk.failing = set()
    row = store.find_run("r")
    assert row is not None
    head = append(store, an_append("r", fence, row.head, count))
    store.close()
    again = SqliteStore(tmp_path / "x.db")
    assert [event.seq for event in again.read_events("r", limit=9)] == list(range(1, head + 1))
    assert [finding for finding in again.examine() if finding.verdict == "failure"] == []
    again.close()


def test_an_unreadable_file_is_told_at_opening(disk: BadDisk, tmp_path: Path) -> None:
    """StoreUnavailable, and not that it is somebody else's file."""
    SqliteStore(tmp_path / "x.db").close()
    disk.failing = {("db", "read")}
    with pytest.raises(StoreUnavailable):
        SqliteStore(tmp_path / "x.db")
    disk.failing = set()
    SqliteStore(tmp_path / "x.db").close()


# -- damaged bytes ----------------------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path: Path) -> bytes:
    """A closed store of one run with twelve events."""
    store = SqliteStore(tmp_path / "whole.db")
    fence = held(store, "debt-cycles")
    for seq in range(12):
        event = an_event(
            "debt-cycles", seq + 1, body=b'{"marker":"body-%02d"}' % (seq + 1), name=f"name-{seq + 1:02d}"
        )
        append(store, an_append("debt-cycles", fence, seq)._replace(events=(event,)))
    store.close()
    return (tmp_path / "whole.db").read_bytes()


def damaged(image: bytes, offset: int, bit: int, place: Path) -> Path:
    content = bytearray(image)
    content[offset] ^= 1 << bit
    place.write_bytes(content)
    return place


def test_a_flipped_bit_in_a_body_is_named(image: bytes, tmp_path: Path) -> None:
    """SQLite sees nothing wrong; the checksum does, and the examination tells run and seq."""
    store = SqliteStore(damaged(image, image.index(b"body-07"), 0, tmp_path / "x.db"))
    failures = [finding for finding in store.examine() if finding.verdict == "failure"]
    assert [failure.text for failure in failures] == ["event 7 of run debt-cycles fails its checksum"]
    assert failures[0].advice
    store.close()


def test_text_that_is_no_text_any_more_is_named(image: bytes, tmp_path: Path) -> None:
    """It cannot even be read as an event: reading says Corrupt, and the examination still tells run and seq."""
    store = SqliteStore(damaged(image, image.index(b"name-05"), 7, tmp_path / "x.db"))
    with pytest.raises(StoreError, match="does not decode") as caught:
        store.read_events("debt-cycles", limit=100)
    assert type(caught.value).__name__ == "Corrupt"
    texts = [finding.text for finding in store.examine() if finding.verdict == "failure"]
    assert "event 5 of run debt-cycles fails its checksum" in texts
    store.close()


def test_no_flipped_bit_passes_unseen(image: bytes, tmp_path: Path) -> None:
    """Anywhere in the file: an error of ours, or the right events, or wrong ones that the examination names."""
    import random

    chance = random.Random(5)
    whole = SqliteStore(tmp_path / "whole.db")
    expected = whole.read_events("debt-cycles", limit=100)
    whole.close()
    seen = {"refused": 0, "named": 0, "harmless": 0}
    for _ in range(400):
        verdict = judge(
            damaged(image, chance.randrange(len(image)), chance.randrange(8), tmp_path / "x.db"), expected
        )
        seen[verdict] += 1
        for entry in tmp_path.glob("x.db-[ws]*"):
            entry.unlink()
    assert seen["refused"]
    assert seen["named"]


def judge(path: Path, expected: list[Any]) -> str:
    try:
        store = SqliteStore(path)
    except StoreError:
        return "refused"
    try:
        failures = [finding for finding in store.examine() if finding.verdict == "failure"]
        events = store.read_events("debt-cycles", limit=100)
    except StoreError:
        return "refused"
    finally:
        store.close()
    if failures:
        return "named"
    assert events == expected, "wrong events, and nothing was said"
    return "harmless"


def test_a_torn_page_is_a_finding_and_not_a_crash(image: bytes, tmp_path: Path) -> None:
    """Whole pages overwritten: verbs say Corrupt, the examination goes on as far as it can."""
    page = image.index(b"body-01") // 4096
    broken = image[: page * 4096] + os.urandom(4096) + image[(page + 1) * 4096 :]
    (tmp_path / "x.db").write_bytes(broken)
    store = SqliteStore(tmp_path / "x.db")
    try:
        findings = store.examine()
        assert {finding.subject for finding in findings if finding.verdict == "failure"} >= {"structure"}
        with pytest.raises(StoreError) as caught:
            store.read_events("debt-cycles", limit=100)
        assert type(caught.value).__name__ == "Corrupt"
    finally:
        store.close()


def test_a_copy_taken_while_it_was_open_is_judged_by_its_content(tmp_path: Path) -> None:
    """The file without its WAL: older, but a whole store; never a mixture."""
    store = SqliteStore(tmp_path / "x.db")
    fence = held(store)
    append(store, an_append("r", fence, 0))
    subprocess.run(["cp", str(tmp_path / "x.db"), str(tmp_path / "copy.db")], check=True)
    store.close()
    copy = SqliteStore(tmp_path / "copy.db")
    assert [finding for finding in copy.examine() if finding.verdict == "failure"] == []
    copy.close()
