"""Whether a process lives, asked of the kernel by its name."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from holdfast.clock import SystemClock
from holdfast.engine.journal.lease import take
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.stores import server_owners
from holdfast.stores.sqlite import SqliteStore

_TELL = "from holdfast.stores.server_owners import owner_here; print(owner_here(), flush=True); input()"


def test_the_dead_are_dead_to_all_who_ask_at_once() -> None:
    """Also while others ask. Planted: a probe that binds the name for a moment, which the next one takes for a sign of life."""
    process = subprocess.Popen(
        [sys.executable, "-c", _TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    owner = process.stdout.readline().strip()
    assert server_owners.probe(owner) == "alive"
    process.kill()
    process.communicate()
    with ThreadPoolExecutor(8) as askers:
        told = list(askers.map(server_owners.probe, [owner] * 4000))
    assert set(told) == {"dead"}


def test_nothing_is_said_of_other_places() -> None:
    """Another machine, another boot, or a name that is none."""
    assert server_owners.probe(server_owners.owner_here()) == "alive"
    assert server_owners.probe(f"1@elsewhere/{'a' * 32}.{'b' * 16}") == "unknown"
    assert server_owners.probe("somebody") == "unknown"


_LEADER_ENDS = """
import ctypes, sys, threading
if len(sys.argv) > 1:
    from holdfast.stores.sqlite import SqliteStore
    store = SqliteStore(sys.argv[1])
    print(store.owner, flush=True)
else:
    from holdfast.stores.server_owners import owner_here
    print(owner_here(), flush=True)
threading.Thread(target=sys.stdin.readline).start()
EXIT = {"x86_64": 60}.get(__import__("platform").machine(), 93)
ctypes.CDLL(None).syscall(EXIT, 0)  # of this thread alone
"""


@pytest.mark.parametrize("kind", ["server", "sqlite"])
def test_a_process_that_is_about_to_be_gone(tmp_path: Path, kind: str) -> None:
    """Its first thread has ended and another has not, as for a moment after every kill: it is neither alive nor dead."""
    place = [str(tmp_path / "s.db")] if kind == "sqlite" else []
    with subprocess.Popen(
        [sys.executable, "-c", _LEADER_ENDS, *place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        deadline = time.monotonic() + 60
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.005)
        asking = SqliteStore(place[0]) if place else server_owners
        assert asking.probe(owner) == "ending"
        process.kill()
        process.communicate()
        assert asking.probe(owner) == "dead"
        if isinstance(asking, SqliteStore):
            asking.close()


def test_a_killed_holder_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The kernel frees a process's memory before its locks. The next start was refused meanwhile, by a process that was
    no more: seen once in 10,000 tests."""
    told = iter(["ending", "ending", "dead"])
    with holdfast.run("r", store=tmp_path / "s.db") as run:
        port = run._held.store
        row = port.find_run("r")
        assert row is not None
        monkeypatch.setattr(type(port), "owner", "1@elsewhere/0.0")
        monkeypatch.setattr(type(port), "probe", lambda self, owner: next(told))
        taken = drive(take(BLOCKING, port, SystemClock(), "r", 60.0))
        assert taken.fence > row.lease.fence
        monkeypatch.undo()
        with suppress(holdfast.LeaseLost):
            run.close()
    assert list(told) == []
