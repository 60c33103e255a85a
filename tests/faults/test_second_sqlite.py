"""Another SQLite in the holder's own process, in a thread, while steps run; and threads that read the store's directory.

POSIX locks never conflict inside one process, and closing any descriptor drops them all. On the code before this test
a second SQLite deleted the live WAL when it closed and emptied ``-shm`` when it opened: the process died by SIGBUS, and
acknowledged steps were gone. A run could not even be entered while a thread read the directory.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults import shim

from holdfast.errors import AcknowledgedLost
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import held

_STEPS = 150
_HOLDER = """
import os, sqlite3, sys, threading
import holdfast
from holdfast import limits
limits.BUSY_TIMEOUT_S = 300.0
run_id, mode, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
looks = 0

def query():
    connection = sqlite3.connect("runs.db")
    connection.execute("SELECT * FROM tool_counts").fetchall()
    connection.close()

def read():
    for name in os.listdir():
        with open(name, "rb") as file:
            file.read()

def look():
    global looks
    while True:
        try:
            {"query": query, "read": read}[mode]()
        except (sqlite3.Error, OSError):
            pass
        looks += 1

acknowledged = os.open(f"../acknowledged-{run_id}", os.O_CREAT | os.O_WRONLY)
threading.Thread(target=look, daemon=True).start()
with holdfast.run(run_id, store="sqlite:///runs.db", loops=False) as run:
    done = 0
    while done < count or looks < 50:
        done += 1
        run.step("work", int, done)
        os.write(acknowledged, b"%d\\n" % done)
    os._exit(0)
"""
_VISITOR = """
import sqlite3, sys
from holdfast import limits
from holdfast.stores.sqlite import SqliteStore
limits.BUSY_TIMEOUT_S = 300.0
for number in range(int(sys.argv[1])):
    if number % 2:
        store = SqliteStore("runs.db")
        store.find_run("a")
        store.close()
    else:
        connection = sqlite3.connect("runs.db")
        connection.execute("SELECT count(*) FROM events").fetchall()
        connection.close()
"""


@pytest.fixture(params=["memory", "disk"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory for a store: where tests usually are, and where a sync costs nothing."""
    place = Path("/dev/shm")
    if request.param == "disk" or not place.is_dir():
        (tmp_path / "store").mkdir()
        yield tmp_path / "store"
        return
    with tempfile.TemporaryDirectory(dir=place) as name:
        (Path(name) / "store").mkdir()
        yield Path(name) / "store"


def start(directory: Path, code: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], cwd=directory, stderr=subprocess.PIPE, text=True
    )


def check(directory: Path, run: str) -> None:
    """Everything that was acknowledged is in the journal, in order; the store is sound."""
    acknowledged = len((directory.parent / f"acknowledged-{run}").read_text().split())
    store = SqliteStore(directory / "runs.db")
    try:
        events = store.read_events(run, limit=2_000)
        assert [event.kind for event in events if event.kind.startswith("step.")] == [
            "step.started",
            "step.finished",
        ] * acknowledged
        assert [found for found in store.examine() if found.verdict == "failure"] == []
    finally:
        store.close()


@pytest.mark.parametrize("mode", ["query", "read"])
def test_steps_while_a_thread_of_the_process_opens_the_store_by_itself(directory: Path, mode: str) -> None:
    """It asks a view with another SQLite, or reads the directory, without a pause: nothing fails and nothing is lost."""
    SqliteStore(directory / "runs.db").close()  # a new store would be named on stderr
    holder = start(directory, _HOLDER, "a", mode, str(_STEPS))
    _, said = holder.communicate(timeout=120)
    assert (holder.returncode, said) == (0, "")
    check(directory, "a")


@pytest.mark.parametrize("mode", ["query", "read"])
def test_several_such_holders_beside_visitors(directory: Path, mode: str) -> None:
    """Each of them enters its run and does its steps, while processes of ours and a shell's open and leave the store."""
    SqliteStore(directory / "runs.db").close()
    holders = [start(directory, _HOLDER, run, mode, "40") for run in "abc"]
    visitor = start(directory, _VISITOR, "40")
    for process in (*holders, visitor):
        _, said = process.communicate(timeout=240)
        assert (process.returncode, said) == (0, "")
    for run in "abc":
        check(directory, run)


_LATECOMER = """
import os, sqlite3, threading, time
import holdfast

def query():
    connection = sqlite3.connect("runs.db")
    connection.execute("SELECT * FROM tool_counts").fetchall()
    connection.close()

other = threading.Thread(target=query)
other.start()
deadline = time.monotonic() + 60
while not os.path.exists(os.environ["HELD_AT"]):
    assert time.monotonic() < deadline, "the other SQLite deleted no WAL"
    time.sleep(0.001)
acknowledged = os.open("../acknowledged-a", os.O_CREAT | os.O_WRONLY)
with holdfast.run("a", store="sqlite:///runs.db") as run:
    run.step("work", int, 1)
    open(os.environ["HELD_UNTIL"], "w").close()  # where the deletion did not wait for us, it comes now
    other.join()
    run.step("work", int, 2)
    os.write(acknowledged, b"1\\n2\\n")
    os._exit(0)
"""


def test_a_second_sqlite_is_about_to_delete_the_wal_when_the_store_is_opened(
    directory: Path, tmp_path: Path
) -> None:
    """The store waits until it has done so. It used to take the other's lock away by looking at the file's header: then the
    WAL was deleted under the run, and every step that was acknowledged went with it (2 of 100 times in the test above)."""
    SqliteStore(directory / "runs.db").close()
    library = shim.compiled(tmp_path, shim.SOURCE.with_name("held_unlink.c"))
    held = {
        "LD_PRELOAD": str(library),
        "HELD_AT": str(tmp_path / "held"),
        "HELD_UNTIL": str(tmp_path / "until"),
    }
    done = subprocess.run(
        [sys.executable, "-c", _LATECOMER],
        cwd=directory,
        env={**os.environ, **held},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    check(directory, "a")


_DELETED = """
import os, sys
import holdfast
from holdfast.errors import NotDurable
done = 0
try:
    with holdfast.run("a", store="sqlite:///runs.db", loops=False) as run:
        for done in range(20):
            if done == 10:
                for name in sys.argv[1:]:
                    os.unlink(name)
            run.step("work", int, done)
except NotDurable as error:
    print(done, error, flush=True)
    os._exit(7)
"""


@pytest.mark.parametrize("names", [["runs.db-wal"], ["runs.db-wal", "runs.db-shm"]], ids=["wal", "both"])
def test_the_wal_is_deleted_under_a_run(directory: Path, names: list[str]) -> None:
    """By a script that cleans up. The next write is not acknowledged and says so; all writes used to go, acknowledged, into
    a file that no process could open again. While ``-shm`` is there, no process can have gone on without this one: then
    what the WAL held is brought into the file. Otherwise the next one to open the run is told what is missing."""
    SqliteStore(directory / "runs.db").close()
    done = subprocess.run(
        [sys.executable, "-c", _DELETED, *names],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert done.stdout.startswith("10 ")
    assert "its -wal file was deleted while this process had it open" in done.stdout
    store = SqliteStore(directory / "runs.db")
    try:
        kinds = [event.kind for event in store.read_events("a", limit=100)]
        if len(names) == 1:
            assert (
                kinds.count("step.finished") == 11
            )  # the last one is there, too: it was only not acknowledged
            assert [found for found in store.examine() if found.verdict == "failure"] == []
        else:
            with pytest.raises(AcknowledgedLost):
                held(store, "a")
    finally:
        store.close()
