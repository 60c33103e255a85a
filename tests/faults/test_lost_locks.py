"""A process loses its locks on the store without knowing it: POSIX drops all of them when any descriptor of a file
is closed in that process, whoever opened it. A backup, a hash of the directory, a linter, a second SQLite do that.

Every process here is a real one. What was acknowledged must be there afterwards, whoever opens and leaves meanwhile;
the holder must look alive; a stranger must not get in. On the code before this test every one of them failed: the next
process that left the store took the live WAL with it.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.stores.sqlite import SqliteStore

_HOLDER = """
import os, shutil, sqlite3, sys, threading
from pathlib import Path
from holdfast.errors import StoreUnavailable
from holdfast.model.store_rows import Appended
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import an_append, held
path, run = Path(sys.argv[1]), sys.argv[2]
store = SqliteStore(path)
fence = held(store, run)
head = 0

def read():
    for file in list(path.parent.iterdir()):
        try:
            file.read_bytes()
        except FileNotFoundError:
            pass

def query():
    connection = sqlite3.connect(path)
    connection.execute("SELECT * FROM tool_counts").fetchall()
    connection.close()

def append(count):
    global head
    for _ in range(count):
        try:
            (outcome,) = store.append([an_append(run, fence, head)])
            assert isinstance(outcome, Appended), outcome
            head = outcome.head
        except StoreUnavailable:  # of unknown outcome: the head is read again, as the journal does it
            head = store.find_run(run).head

for line in sys.stdin:
    verb, *rest = line.split()
    if verb == "append":
        append(int(rest[0]))
    elif verb == "both":
        for _ in range(int(rest[0])):
            read()
            append(1)
    else:
        {"read": read, "query": query}[verb]()
    print(store.owner, head, flush=True)
"""

_VISITOR = """
import sys
from holdfast.stores.sqlite import SqliteStore
for _ in range(int(sys.argv[2])):
    store = SqliteStore(sys.argv[1])
    store.find_run("a")
    store.close()
"""

_SHELL = """
import sqlite3, sys
for _ in range(int(sys.argv[2])):
    connection = sqlite3.connect(sys.argv[1])
    connection.execute("SELECT count(*) FROM events").fetchall()
    connection.close()
"""


class Holder:
    """A process that holds a run and appends to it, step by step."""

    def __init__(self, path: Path, run: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, str(path), run],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.owner, self.head = "", 0

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> None:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline().split()
        assert answer, f"the holder ended with {self.process.wait()}"
        self.owner, self.head = answer[0], int(answer[1])

    def do(self, line: str) -> int:
        self.tell(line)
        self.hear()
        return self.head


@contextmanager
def holding(path: Path, run: str = "a") -> Iterator[Holder]:
    found = Holder(path, run)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def visit(path: Path, times: int = 1, *, code: str = _VISITOR) -> None:
    subprocess.run([sys.executable, "-c", code, str(path), str(times)], check=True, timeout=120)


def recorded(path: Path, run: str = "a") -> int:
    """How far the run's journal goes, as a process sees it that comes afterwards."""
    code = "import sys; from holdfast.stores.sqlite import SqliteStore; print(SqliteStore(sys.argv[1]).find_run(sys.argv[2]).head)"
    found = subprocess.run(
        [sys.executable, "-c", code, str(path), run], check=True, capture_output=True, text=True, timeout=60
    )
    return int(found.stdout)


@pytest.mark.parametrize("visitor", [_VISITOR, _SHELL], ids=["holdfast", "shell"])
@pytest.mark.parametrize("act", ["read", "query"])
def test_what_is_acknowledged_after_the_locks_were_lost_is_there(path: Path, act: str, visitor: str) -> None:
    """The holder reads its own directory, or asks the views with another SQLite; a visitor comes and goes; a kill."""
    with holding(path) as holder:
        holder.do("append 5")
        holder.do(act)
        visit(path, code=visitor)
        assert holder.do("append 50") == 55
        visit(path, code=visitor)
        assert holder.do("append 5") == 60
    assert recorded(path) == 60


def test_a_kill_right_after_another_sqlite_was_here(path: Path) -> None:
    """Nobody else opens the store before the kill."""
    with holding(path) as holder:
        holder.do("append 5")
        holder.do("query")
        assert holder.do("append 45") == 50
    assert recorded(path) == 50


def test_a_holder_whose_directory_was_read_is_alive(path: Path) -> None:
    """Its byte says so; else a second process would enter what the first is in the middle of."""
    with holding(path) as holder:
        holder.do("append 1")
        holder.do("read")
        store = SqliteStore(path)
        try:
            assert store.probe(holder.owner) == "alive"
        finally:
            store.close()


_RELIES = """
import logging, sys
import holdfast
from holdfast.errors import HoldfastError
logging.basicConfig(level=logging.WARNING, stream=sys.stdout)
with holdfast.run("a", store="sqlite:///runs.db") as run:
    run.depends_on(".")
    run.artifact(".")
    for verb in (lambda: run.artifact("runs.db"), lambda: run.open("runs.db", "w").__enter__()):
        try:
            verb()
            print("not refused")
        except HoldfastError as refused:
            assert "store that is open here" in str(refused), refused
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        run.step("work", abs, number)
"""


def test_a_run_that_relies_on_the_directory_of_its_store_reads_nothing_of_the_store(path: Path) -> None:
    """Its files are nobody's content, and are not opened: no lock is lost, and nothing has to be opened again."""
    program = subprocess.Popen(
        [sys.executable, "-c", _RELIES],
        cwd=path.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    visit(path)
    told, _ = program.communicate("go\n", timeout=60)
    assert told == ""
    assert program.returncode == 0
    assert recorded(path) > 40


_PAYS = """
import sys
from pathlib import Path
import holdfast
@holdfast.tool(effect="once")
def pay():
    for file in Path().iterdir():
        file.read_bytes()
    print("inside", flush=True)
    sys.stdin.readline()
with holdfast.run("a", store="sqlite:///runs.db"):
    pay()
"""


def test_nobody_enters_a_tool_that_a_holder_without_locks_is_inside_of(path: Path) -> None:
    """The tool itself has read the directory; a second process is told that the run is held."""
    start = [sys.executable, "-c", _PAYS]
    first = subprocess.Popen(start, cwd=path.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "inside\n"
    second = subprocess.run(
        start, cwd=path.parent, input="", capture_output=True, text=True, timeout=60, check=False
    )
    assert "inside" not in second.stdout
    assert "RunHeld" in second.stderr
    told, _ = first.communicate("go\n", timeout=60)
    assert (told, first.returncode) == ("", 0)


@pytest.mark.parametrize("visitor", [_VISITOR, _SHELL], ids=["holdfast", "shell"])
def test_writers_that_keep_reading_their_directory_lose_nothing(path: Path, visitor: str) -> None:
    """Three of them, while others open and leave the store all the time."""
    SqliteStore(path).close()
    with holding(path, "a") as a, holding(path, "b") as b, holding(path, "c") as c:
        for one in (a, b, c):
            one.do("append 1")
        for one in (a, b, c):
            one.tell("both 60")
        visit(path, 20, code=visitor)
        for one in (a, b, c):
            one.hear()
        heads = [a.head, b.head, c.head]
    assert [recorded(path, run) for run in "abc"] == heads
