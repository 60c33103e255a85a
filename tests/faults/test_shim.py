"""The shim and the replay of its log, each by itself: what they do to single calls."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults import replay, shim
from tests.faults.laboratory import Laboratory
from tests.faults.nursery import ROOT
from tests.faults.replay import Files, cached, cut
from tests.faults.shim import Record

_BEGIN = """
import errno, os, sys
from pathlib import Path
from tests.faults.shim import *
place, log = Path(sys.argv[1]), Path(sys.argv[2])
shim = Shim()
shim.begin(place / "x.db", log, int(sys.argv[3]))
def strike(files, calls, **how):
    how = {"slot": 0, "skip": 0, "count": 1, "action": "fail", "error": errno.EIO, **how}
    shim.rule(**{**how, "files": FILES[files], "calls": CALLS[calls], "action": ACTIONS[how["action"]]})
def failing(act):
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]
def create(name):
    return os.open(place / name, os.O_RDWR | os.O_CREAT)
"""


def told(lab: Laboratory, place: Path, script: str, behaviour: int = 0) -> tuple[str, list[Record]]:
    """What a script prints that runs over the shim, and what is in the log then."""
    live = place / "live"
    live.mkdir()
    log = shim.new_log(place / "log")
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + script, str(live), str(log), str(behaviour)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(lab.library), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, -9), done.stderr
    return done.stdout, shim.read_log(log)


def test_errnos_short_writes_and_windows(lab: Laboratory, tmp_path: Path) -> None:
    """Any errno at the n-th call of a kind on a kind of file, for so many calls; other files and calls are left alone."""
    script = """
wal, db = create("x.db-wal"), create("x.db")
strike("wal", "write", skip=1, count=2, error=errno.EDQUOT)
print([failing(lambda: os.write(wal, b"abcd")) for _ in range(5)])
print(failing(lambda: os.write(db, b"abcd")), failing(lambda: os.ftruncate(wal, 8)))
strike("wal", "write", action="short")
print(os.pwrite(wal, b"x" * 100, 0), os.pwrite(wal, b"x" * 100, 0))
strike("db", "write", action="full", count=-1, error=errno.ENOSPC)
print(os.pwrite(db, b"x" * 4096, 0), failing(lambda: os.pwrite(db, b"x" * 4096, 0)))
shim.lift()
print(os.pwrite(db, b"x" * 4096, 0))
strike("side", "open", error=errno.EMFILE)
print(failing(lambda: create("x.db-owners")), failing(lambda: os.open("/etc/hostname", os.O_RDONLY)))
strike("db", "read", count=2)
print(failing(lambda: os.pread(db, 1, 0)), failing(lambda: os.read(db, 1)), os.pread(db, 1, 0))
strike("side", "rename"); (place / "y").write_bytes(b"")
print(failing(lambda: os.replace(place / "y", place / "z")))
strike("side", "unlink")
print(failing(lambda: os.unlink(place / "y")))
"""
    printed, records = told(lab, tmp_path, script)
    assert printed.splitlines() == [
        "[None, 'EDQUOT', 'EDQUOT', None, None]",
        "None None",
        "50 100",
        "2048 ENOSPC",
        "4096",
        "EMFILE None",
        "EIO EIO b'x'",
        "EIO",
        "EIO",
    ]
    names = [shim.fault_name(record) for record in records if record.type == shim.FAULT]
    assert names[:3] == ["EDQUOT write wal", "EDQUOT write wal", "short write wal"]
    assert cached({}, records) == {"x.db": b"x" * 4096, "x.db-wal": b"x" * 100, "y": b""}


def test_sqlite_itself_is_below_the_shim(lab: Laboratory, tmp_path: Path) -> None:
    """Both of them: the one that apsw brings, and the one of Python's own module. They look their calls up in the C library."""
    script = """
import apsw, sqlite3
for connection in (apsw.Connection(str(place / "x.db")), sqlite3.connect(place / "x.db", isolation_level=None)):
    strike("journal", "write")
    try:
        connection.execute("create table if not exists t(x)")
        connection.execute("insert into t values(1)")
    except (apsw.Error, sqlite3.Error) as error:
        print(error)
    shim.lift()
    connection.close()
"""
    printed, _ = told(lab, tmp_path, script)
    assert printed == "disk I/O error\n" * 2


def test_a_failed_sync_forgets(lab: Laboratory, tmp_path: Path) -> None:
    """What was unsynced before it is not on the disk, although everybody reads it and the next sync succeeds."""
    script = """
wal = create("x.db-wal")
os.write(wal, b"kept"); os.fsync(wal)
os.write(wal, b"lost")
strike("wal", "sync")
print(failing(lambda: os.fdatasync(wal)))
os.write(wal, b"more")
os.fsync(wal)
print((place / "x.db-wal").read_bytes())
"""
    printed, records = told(lab, tmp_path, script)
    assert printed == "EIO\nb'keptlostmore'\n"
    left = {cut({}, records, random.Random(seed))["x.db-wal"] for seed in range(20)}
    assert left == {b"kept\0\0\0\0more", b"keptlostmore"}  # the latter: it had been written already


@pytest.mark.parametrize("behaviour", [0, shim.TELL_EVERY_DESCRIPTOR])
def test_other_descriptors_hear_of_a_failed_sync_once_or_never(
    lab: Laboratory, tmp_path: Path, behaviour: int
) -> None:
    """Newer kernels tell everyone who had the file open then; whoever opens it later is told nothing."""
    script = """
first, second = create("x.db-wal"), create("x.db-wal")
strike("wal", "sync")
print(failing(lambda: os.fsync(first)), failing(lambda: os.fsync(first)))
print(failing(lambda: os.fsync(second)), failing(lambda: os.fsync(second)))
print(failing(lambda: os.fsync(create("x.db-wal"))))
"""
    printed, _ = told(lab, tmp_path, script, behaviour)
    assert printed == f"EIO None\n{'EIO' if behaviour else None} None\nNone\n"


@pytest.mark.parametrize(
    ("action", "left"), [("kill before", b""), ("kill torn", b"x" * 50), ("kill after", b"x" * 100)]
)
def test_a_kill_falls_where_it_is_told_to(lab: Laboratory, tmp_path: Path, action: str, left: bytes) -> None:
    """And what is in the log is what has happened."""
    script = f"""
db = create("x.db")
strike("db", "write", action="{action}")
os.write(db, b"x" * 100)
print("alive")
"""
    printed, records = told(lab, tmp_path, script)
    assert printed == ""
    assert cached({}, records) == {"x.db": left}
    assert (tmp_path / "live" / "x.db").read_bytes() == left


def test_limits_of_the_process_do_not_touch_the_log(lab: Laboratory, tmp_path: Path) -> None:
    """A real EFBIG for the store's file, and a mark behind it."""
    script = """
import resource
db = create("x.db")
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
print(os.pwrite(db, b"x" * 100, 0), failing(lambda: os.pwrite(db, b"x", 10)))
shim.mark(1, 7, is_synced=True)
"""
    printed, records = told(lab, tmp_path, script)
    assert printed == "10 EFBIG\n"
    assert [(r.inode, r.number, r.flags) for r in records if r.type == shim.MARK] == [(1, 7, 1)]


# -- the replay -------------------------------------------------------------------------------------------------


def a_record(
    type_: int, inode: int = 1, number: int = 0, data: bytes = b"", *, flags: int = 0, kind: str = "db"
) -> Record:
    return Record(type_, shim.FILES[kind], flags, inode, number, data)


def left_by(image: Files, records: list[Record], seeds: int = 300) -> set[tuple[tuple[str, bytes], ...]]:
    return {tuple(sorted(cut(image, records, random.Random(seed)).items())) for seed in range(seeds)}


def test_what_is_synced_stays_and_what_is_not_may_be_torn() -> None:
    """Any of the sectors of a write that was not synced, and nothing of the others changed."""
    old, new = b"o" * 1024, b"n" * 1024
    records = [a_record(shim.OPEN, data=b"/s/x.db"), a_record(shim.WRITE, data=new)]
    assert left_by({"x.db": old}, [*records, a_record(shim.SYNC)]) == {(("x.db", new),)}
    halves = {b"o" * 512 + b"n" * 512, b"n" * 512 + b"o" * 512}
    assert left_by({"x.db": old}, records) == {(("x.db", each),) for each in {old, new, *halves}}


def test_names_are_durable_with_their_directory() -> None:
    """A new file with its own sync, a rename and a deletion with the directory's; before that it may be so or not, in order."""
    made = [
        a_record(shim.OPEN, 2, data=b"/s/x.db-new", flags=1, kind="side"),
        a_record(shim.WRITE, 2, data=b"whole", kind="side"),
        a_record(shim.SYNC, 2, kind="side"),
        a_record(shim.RENAME, 0, data=b"/s/x.db-new\0/s/x.db", kind="side"),
        a_record(shim.UNLINK, 0, data=b"/s/old", kind="side"),
    ]
    draft, moved = ("x.db-new", b"whole"), ("x.db", b"whole")
    image = {"old": b"o"}
    assert left_by(image, made) == {(("old", b"o"), draft), (("old", b"o"), moved), (moved,)}
    assert left_by(image, [*made, a_record(shim.SYNC, 0, kind="directory")]) == {(moved,)}


def test_a_file_without_a_name_is_not_there() -> None:
    """Somebody goes on writing to a WAL that somebody else has deleted: synced or not, nobody will ever read it."""
    records = [
        a_record(shim.OPEN, 2, data=b"/s/x.db-wal", kind="wal"),
        a_record(shim.UNLINK, 0, data=b"/s/x.db-wal", kind="wal"),
        a_record(shim.SYNC, 0, kind="directory"),
        a_record(shim.WRITE, 2, data=b"new", kind="wal"),
        a_record(shim.SYNC, 2, kind="wal"),
    ]
    assert left_by({"x.db-wal": b"old"}, records) == {()}


def test_a_hole_reads_as_zeros() -> None:
    """A truncation that makes a file longer, and a write behind its end."""
    content = bytearray(b"ab")
    replay.apply(content, replay.Change(4, None))
    replay.apply(content, replay.Change(6, b"c"))
    assert content == b"ab\0\0\0\0c"


def test_without_a_compiler_the_tests_fail_and_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not skip: without the shim they show nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AssertionError, match="C compiler"):
        shim.compiled(tmp_path)
