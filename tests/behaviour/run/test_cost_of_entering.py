"""What entering and leaving a run costs: counted, in threads, statements, transactions and waits for a thread.

Programs enter thousands of runs one after the other, and event loops hundreds at once. Nothing here is a matter of time.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import holdfast
from holdfast.engine import store_threads
from holdfast.engine.journal import heartbeat
from holdfast.engine.run.store_session import session_of
from holdfast.model.store_rows import Grant
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.stores.url import open_store
from holdfast.testing.relay_store import Relay

DEADLINE_S = 30.0
HOUR_S = 3_600.0


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    made = open_store(tmp_path / "runs.db")
    assert isinstance(made, SqliteStore)
    with holdfast.run("first", store=made.url):  # what is done for the first time is done
        pass
    return made


@pytest.fixture
def statements(store: SqliteStore) -> Iterator[Counter[str]]:
    """How often each statement was executed, by its first word; and what the commits with a sync are."""
    database, found = store._database, Counter[str]()

    def note(cursor: apsw.Cursor, text: str, __: object) -> bool:
        word = text.split(maxsplit=1)[0]
        found[word] += 1
        found["synced"] += word == "COMMIT" and cursor.connection is database.synced
        return True

    connections = (database.synced, database.flushed, database.reading)
    for connection in connections:
        connection.exec_trace = note
    yield found
    for connection in connections:
        connection.exec_trace = None


def until(is_so: Callable[[], object]) -> None:
    """Poll until it is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.005)


def ended(beats: heartbeat.Heartbeat) -> None:
    """The thread ends with the first beat at which no run is held."""

    def has_ended() -> bool:
        beats._wake.set()
        return beats._thread is None

    until(has_ended)


def enter_and_leave(store: SqliteStore, run: str, error: Exception | None = None) -> None:
    try:
        with holdfast.run(run, store=store.url):
            if error is not None:
                raise error
    except InterruptedError:
        pass


# -- threads -------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that are started from now on."""
    names: list[str] = []
    start = threading.Thread.start

    def noted(self: threading.Thread) -> None:
        names.append(self.name)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return names


def test_runs_that_follow_each_other_share_one_heartbeat_thread(
    store: SqliteStore, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It rests between them, and nothing wakes it. It was started for each, and each run waited for its start."""
    monkeypatch.setattr(heartbeat, "_REST_S", HOUR_S)
    monkeypatch.setattr(heartbeat, "_beat_s", lambda _: HOUR_S)
    beats = session_of(store).heartbeat
    ended(beats)  # the thread of the fixture
    for number in range(20):
        enter_and_leave(store, f"r{number}")
    assert started == ["holdfast-heartbeat"]
    assert not beats._wake.is_set(), "neither entering nor leaving a run wakes the thread"
    ended(beats)


class Beating(Relay):
    """Counts its beats."""

    beats = 0

    def renew(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        self.beats += 1
        return super().renew(*args, **kwargs)


def test_a_resting_thread_wakes_for_a_shorter_lease(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else that lease would run out. Planted: without the wake in ``add``, no beat comes for an hour."""
    monkeypatch.setattr(heartbeat, "_REST_S", HOUR_S)
    monkeypatch.setattr(heartbeat, "_beat_s", lambda lease_s: lease_s)
    port = Beating(store)
    session = session_of(port, lease_s=HOUR_S)
    with holdfast.run("long", store=holdfast.Store(port)):
        pass
    until(lambda: session.heartbeat._wait_s > 1.0)
    session.lease_s = 0.01
    with holdfast.run("short", store=holdfast.Store(port)):
        until(lambda: port.beats > 2)
    ended(session.heartbeat)


# -- statements ----------------------------------------------------------------------------------------------


def test_a_new_run_takes_few_statements(store: SqliteStore, statements: Counter[str]) -> None:
    """Its row, its lease, the attempt, the end and the release: five transactions, two of them synced.

    It was six and five, with 29 statements. The row comes with the lease, the end of the run and that of the attempt are one
    append, and nobody can miss a row or a lease that goes with its holder.
    """
    enter_and_leave(store, "r")
    assert statements["BEGIN"] == statements["COMMIT"] == 5
    assert statements.pop("synced") == 2
    assert statements.total() <= 23
    assert [event.kind for event in store.read_events("r", limit=10)][-2:] == [
        "run.finished",
        "attempt.ended",
    ]


def test_a_resumed_run_takes_few_statements(store: SqliteStore, statements: Counter[str]) -> None:
    """It reads its row once before it has the lease, and its journal and its letters after it. It was
    24, in five transactions, four of them synced."""
    enter_and_leave(store, "r", InterruptedError())
    statements.clear()
    enter_and_leave(store, "r")
    assert statements["BEGIN"] == statements["COMMIT"] == 4
    assert statements.pop("synced") == 2
    assert statements.total() <= 18


def test_a_store_whose_row_does_not_come_with_the_lease_is_asked_for_it(store: SqliteStore) -> None:
    """As when the row is damaged, or too large for the answer."""

    class Bare(Relay):
        def acquire(self, *args: Any, **kwargs: Any) -> Grant:
            return super().acquire(*args, **kwargs)._replace(row=None)

    for _ in range(2):
        with pytest.raises(InterruptedError), holdfast.run("r", store=holdfast.Store(Bare(store))) as run:
            raise InterruptedError
    assert run.attempt == 2


# -- waits of a task -----------------------------------------------------------------------------------------


def test_a_task_waits_for_a_thread_few_times(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """To enter a new run and to leave it: 8 times, where it was 17. Each is a hop to a thread and back."""
    hops: list[object] = []
    begin = store_threads.StoreThreads.begin

    def noted(self: store_threads.StoreThreads, fn: Callable[..., object], *args: Any) -> None:
        hops.append(fn)
        begin(self, fn, *args)

    monkeypatch.setattr(store_threads.StoreThreads, "begin", noted)

    async def one(run: str) -> None:
        async with holdfast.run(run, store=store.url):
            pass

    asyncio.run(one("r"))
    assert len(hops) <= 8
