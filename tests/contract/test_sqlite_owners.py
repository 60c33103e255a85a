"""Who is alive, and what a fork may not do. Every process here is a real one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import HandleClosed
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import an_append, append, held

_DEADLINE_S = 60.0

# Opens the store, prints its owner, answers "probe OWNER" lines until its input ends.
_PEER = """
import sys
from holdfast.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
print(store.owner, flush=True)
for line in sys.stdin:
    print(store.probe(line.strip()), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


class Peer:
    """Another process with the same store open."""

    def __init__(self, path: Path, *wrapper: str, code: str = _PEER) -> None:
        self.process = subprocess.Popen(
            [*wrapper, sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.owner = self.read()

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the peer ended early: {self.process.poll()}"
        return line.strip()

    def probe(self, owner: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(owner + "\n")
        self.process.stdin.flush()
        return self.read()


@contextmanager
def peer(path: Path, *wrapper: str, code: str = _PEER) -> Iterator[Peer]:
    found = Peer(path, *wrapper, code=code)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.communicate()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.005)


def state_of(pid: int) -> str:
    """The letter that the kernel shows for a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# -- liveness ---------------------------------------------------------------------------------------------------


def test_processes_see_each_other_alive(store: SqliteStore, path: Path) -> None:
    """In both directions, again and again: probing takes nothing away."""
    with peer(path) as other:
        for _ in range(3):
            assert store.probe(other.owner) == "alive"
            assert other.probe(store.owner) == "alive"
            assert other.probe(other.owner) == "alive"


def test_a_killed_process_is_dead_before_anybody_reaps_it(store: SqliteStore, path: Path) -> None:
    """SIGKILL leaves a zombie until the parent looks; the kernel has taken its locks already."""
    with peer(path) as other:
        assert store.probe(other.owner) == "alive"
        other.process.send_signal(signal.SIGKILL)
        wait_until(lambda: state_of(other.process.pid) == "Z", "a zombie")
        assert store.probe(other.owner) == "dead"
        assert store.probe(other.owner) == "dead"


def test_a_stopped_process_is_alive(store: SqliteStore, path: Path) -> None:
    """It may go on any time: only its fence keeps it from the journal."""
    with peer(path) as other:
        other.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(other.process.pid) == "T", "a stopped process")
        assert store.probe(other.owner) == "alive"


def test_process_numbers_do_not_matter(store: SqliteStore, path: Path) -> None:
    """In another PID namespace, as in a container, both sides may be number 1: the file decides. Needs root."""
    with peer(path, "unshare", "--pid", "--fork", "--kill-child") as other:
        assert other.owner.startswith("1@"), f"not in a namespace of its own: {other.owner}"
        assert store.probe(other.owner) == "alive"
        assert other.probe(store.owner) == "alive"
        other.process.kill()
        wait_until(lambda: store.probe(other.owner) == "dead", "the death of the namespace")


def test_an_owner_of_another_lock_file_is_unknown(store: SqliteStore, path: Path) -> None:
    """Deleted or replaced under a living process: nothing can be proven, in no direction."""
    with peer(path) as other:
        lock_file = path.with_name(path.name + "-owners")
        lock_file.unlink()
        assert store.probe(other.owner) == "unknown"
        with peer(path) as third:
            assert third.probe(other.owner) == "unknown"
            assert store.probe(third.owner) == "unknown"
            assert store.probe(store.owner) == "alive"


def test_stores_of_one_process_share_its_byte(store: SqliteStore, path: Path) -> None:
    """Closing one of them, or all while a run is held, does not make the process look dead.

    Planted once: with a descriptor per store, closed with it, the peer says "dead" after the first close.
    """
    held(store)
    with peer(path) as other:
        second = SqliteStore(path)
        assert second.owner == store.owner
        second.close()
        assert other.probe(store.owner) == "alive"
        store.close()
        assert other.probe(store.owner) == "alive"


def test_the_lock_file_does_not_grow(store: SqliteStore, path: Path) -> None:
    """A lock may lie far behind the end of an empty file."""
    assert store.owner
    assert path.with_name(path.name + "-owners").stat().st_size == 0


# -- fork -------------------------------------------------------------------------------------------------------


def run_script(body: str, path: Path) -> str:
    """A script with a store open and a run held; its output."""
    head = (
        "import os, sys\n"
        "from holdfast.errors import ForkedHandle, StoreUnavailable\n"
        "from holdfast.stores.url import open_store\n"
        "from holdfast.testing.store_rules.builders import *\n"
        "store = open_store(sys.argv[1])\n"
        "fence = held(store)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + body, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_forked_handle_refuses_and_the_child_opens_anew(path: Path) -> None:
    """Every verb says ForkedHandle; a new handle works, as another owner; and the parent goes on undisturbed."""
    out = run_script(
        """
pid = os.fork()
if pid == 0:
    for verb in (lambda: store.find_run("r"), lambda: store.append([an_append("r", fence, 0)]),
                 lambda: store.renew({"r": fence}, at=AT), lambda: store.probe(store.owner),
                 lambda: store.sync(), lambda: store.wait({}, timeout_s=0.0), lambda: store.examine()):
        try:
            verb()
        except ForkedHandle as error:
            assert error.used_by == os.getpid() != error.opened_by == os.getppid()
        else:
            sys.exit(3)
    store.close()
    own = open_store(sys.argv[1])
    assert own is not store and own.owner != store.owner
    assert own.probe(store.owner) == "alive"
    assert append(own, an_append("r", fence, 0)) == 1
    sys.exit(0)  # and not _exit: the interpreter finalizes what it inherited
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert append(store, an_append("r", fence, 1)) == 2
assert not [finding for finding in store.examine() if finding.verdict == "failure"]
print("done")
""",
        path,
    )
    assert out == "done\n"


def test_a_fork_in_the_middle_of_a_transaction_harms_nothing(path: Path) -> None:
    """The child leaves the inherited connection alone, also when its interpreter exits; the parent commits.

    Planted once: without ``_make_immortal`` the child's exit closes the connection, which undoes the transaction in the
    shared memory of the WAL, and the parent's commit was lost or its file malformed.
    """
    out = run_script(
        """
with store._database.write(synced=True) as connection:
    connection.execute("INSERT INTO records (space, key, revision, body) VALUES ('s', 'k', 1, zeroblob(100000))")
    connection.cache_flush()
    pid = os.fork()
    if pid == 0:
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert store.get_record("s", "k") is not None
assert append(store, an_append("r", fence, 0)) == 1
other = open_store("memory://")
store.close()
store = open_store(sys.argv[1])
assert store.get_record("s", "k") is not None
assert not [finding for finding in store.examine() if finding.verdict == "failure"]
print("done")
""",
        path,
    )
    assert out == "done\n"


def test_a_fork_while_another_thread_holds_the_locks_does_not_hang(path: Path) -> None:
    """The fork waits for the thread, but not for long. The child hears ForkedHandle, and may not open the store: SQLite would not lock it."""
    out = run_script(
        """
import threading
inside, leave = threading.Event(), threading.Event()
def hold():
    with store._database.writing, store._database.read():
        inside.set()
        leave.wait()
thread = threading.Thread(target=hold)
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    try:
        store.append([an_append("r", fence, 0)])
    except ForkedHandle:
        try:
            open_store(sys.argv[1])
        except StoreUnavailable:
            os._exit(0)
    os._exit(3)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
leave.set()
thread.join()
print("code", code)
""",
        path,
    )
    assert out == "code 0\n"


def test_a_forks_life_is_not_its_parents(store: SqliteStore, path: Path) -> None:
    """A killed parent is dead although a child with its descriptors lives on: locks are not inherited."""
    code = """
import os, sys
from holdfast.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
if os.fork() == 0:
    sys.stdin.read()  # until the test closes the pipe
    os._exit(0)
print(store.owner, flush=True)
sys.stdin.read()
"""
    with peer(path, code=code) as other:
        assert store.probe(other.owner) == "alive"
        other.process.kill()
        wait_until(lambda: store.probe(other.owner) == "dead", "the death of the parent")


_FOREIGN = """
import subprocess
def look(path):  # as a shell does: open, read, close; it deletes the WAL if nobody is seen to use it
    code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('select count(*) from events').fetchone()[0]); c.close()"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60, check=True)
    return int(done.stdout)
"""


@pytest.mark.parametrize("how", ["os.fork", "multiprocessing"])
def test_what_a_child_opens_itself_is_locked(path: Path, how: str) -> None:
    """A child opens the store that its parent had open, and the parent closes it: a shell that comes and goes takes nothing away.

    Planted once: with the inherited connections left open, SQLite took no lock in the child, the shell deleted the
    child's WAL, and what it wrote afterwards was acknowledged and lost.
    """
    fork = {
        "os.fork": "pid = os.fork()\nif pid == 0:\n    try:\n        child()\n    finally:\n        os._exit(0)\n"
        "join = lambda: os.waitpid(pid, 0)\n",
        "multiprocessing": "import multiprocessing\n"
        "process = multiprocessing.get_context('fork').Process(target=child)\nprocess.start()\njoin = process.join\n",
    }
    out = run_script(
        f"""{_FOREIGN}
append(store, an_append("r", fence, 0))
begin, begun = os.pipe()
def child():
    assert os.read(begin, 1) == b"."
    own = open_store(sys.argv[1])
    assert append(own, an_append("r", fence, 1)) == 2
    assert look(sys.argv[1]) == 2
    assert append(own, an_append("r", fence, 2)) == 3
    print("acknowledged", flush=True)
{fork[how]}
store.close()
os.write(begun, b".")
join()
print(open_store(sys.argv[1]).find_run("r").head)
""",
        path,
    )
    assert out == "acknowledged\n3\n"


def test_a_child_takes_no_lock_from_its_parent(path: Path) -> None:
    """Whatever the child closes, and when it ends: a shell sees that the parent has the store open, and leaves its WAL alone."""
    out = run_script(
        f"""{_FOREIGN}
append(store, an_append("r", fence, 0))
pid = os.fork()
if pid == 0:
    own = open_store(sys.argv[1])
    append(own, an_append("r", fence, 1))
    own.close()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert not store._database.locks.guard.is_lost
assert append(store, an_append("r", fence, 2)) == 3
assert look(sys.argv[1]) == 3
assert append(store, an_append("r", fence, 3)) == 4
print(look(sys.argv[1]), os.path.exists(sys.argv[1] + "-wal"))
""",
        path,
    )
    assert out == "4 True\n"


def test_a_memory_store_does_not_cross_a_fork() -> None:
    """Two processes would each go on with a copy and call it the same store."""
    code = """
import os, sys
from holdfast.errors import ForkedHandle
from holdfast.stores.url import open_store
from holdfast.testing.store_rules.builders import *
store = open_store("memory://x")
held(store)
pid = os.fork()
if pid == 0:
    try:
        store.find_run("r")
    except ForkedHandle:
        os._exit(0 if open_store("memory://x").find_run("r") is None else 4)
    os._exit(3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_a_dead_holders_run_is_taken_over_at_once(store: SqliteStore, path: Path) -> None:
    """The walk that all this is for: killed, proven dead, taken over by compare-and-set, fenced."""
    code = """
import sys
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import *
store = SqliteStore(sys.argv[1])
append(store, an_append("r", held(store), 0))
print(store.owner, flush=True)
sys.stdin.read()
"""
    with peer(path, code=code) as other:
        found = store.find_run("r")
        assert found is not None
        assert found.lease.owner == other.owner
        other.process.kill()
        wait_until(lambda: store.probe(found.lease.owner) == "dead", "the death of the holder")
        grant = store.acquire("r", at=1.0, lease_s=30.0, over=found.lease)
        assert grant.granted
        assert append(store, an_append("r", grant.lease.fence, 1)) == 2
    assert os.getpid() == int(grant.lease.owner.partition("@")[0])


def test_closing_the_last_store_gives_back_its_descriptors(path: Path) -> None:
    """A process that opens and closes many stores does not run out of descriptors; a reopened one is a new owner."""
    before = len(os.listdir("/proc/self/fd"))
    names = set()
    for _ in range(30):
        first, second = SqliteStore(path), SqliteStore(path)
        assert first.owner == second.owner
        names.add(first.owner)
        first.close()
        assert second.probe(first.owner) == "alive"
        second.close()
        second.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert len(names) == 30


def test_a_closed_store_does_not_say_whose_it_is(path: Path) -> None:
    """HandleClosed, as for its verbs: the descriptor is gone, and its number may be another file's by now."""
    store = SqliteStore(path)
    store.close()
    with path.open("rb"), pytest.raises(HandleClosed):
        _ = store.owned_by
