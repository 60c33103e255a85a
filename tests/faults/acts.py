"""What a child can be told to do to a store: the verbs of a schedule.

Store-level verbs write events whose content follows from run and seq, so that whoever reads them knows whether they are
right. Each acknowledged seq is marked in the shim's log at once: that is the promise that the oracle checks.
"""

import os
import re
import resource
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
from tests.faults.run_acts import RunActs
from tests.faults.shim import Shim

from holdfast.errors import StoreError
from holdfast.model.store_rows import Append, Appended
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.store_rules.builders import AT, a_run, an_event

GATE = "gate"
"""A pipe beside the ledger that is open for writing as long as the world lasts."""
_PAGE = 2_000
_TRIES = 3


class Refused(Exception):
    """The only writer of a run, who knows its head, was refused: never typed, always a violation."""


class Acts(RunActs):
    """One process and its store, its run there, and whatever else it has open."""

    def __init__(self, wire: int) -> None:
        super().__init__(Shim())
        self._wire = wire
        self._store: SqliteStore | None = None
        self._foreign: dict[str, sqlite3.Connection] = {}
        self._watches = threading.Event()
        self._fence = 0
        self._head: int | None = None  # unknown: it has to be read first
        self._limits = {
            which: resource.getrlimit(which) for which in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
        }

    def begin(self, database: str, log: str, behaviour: int, number: int, ledger: str) -> None:
        """Watch this store from now on; ``number`` is the run that is this child's own."""
        self._path, self._number, self._run = Path(database), number, f"r{number}"
        self._open_ledger(Path(ledger))
        self._shim.begin(self._path, Path(log), behaviour)

    # -- faults ----------------------------------------------------------------------------------------------

    def strike(self, **rule: int) -> None:
        self._shim.rule(**rule)

    def lift(self) -> None:
        """The disk is well again, and the limits are what they were."""
        self._shim.lift()
        for which, limit in self._limits.items():
            resource.setrlimit(which, limit)

    def limit_file_size(self, more: int) -> None:
        """EFBIG: no file may grow beyond what the largest file of the store has, and a bit."""
        largest = max(entry.stat().st_size for entry in self._path.parent.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + more, self._limits[resource.RLIMIT_FSIZE][1]))

    def limit_descriptors(self, more: int) -> None:
        """EMFILE: so many more descriptors, and no others."""
        taken = {int(name) for name in os.listdir("/proc/self/fd")}
        free = [fd for fd in range(max(taken) + more + 2) if fd not in taken]
        resource.setrlimit(resource.RLIMIT_NOFILE, (free[more], self._limits[resource.RLIMIT_NOFILE][1]))

    # -- the store -------------------------------------------------------------------------------------------

    def open(self) -> None:
        self._opened()

    def close(self) -> None:
        store, self._store = self._store, None
        self._head = None
        if store is not None:
            store.close()

    def append(self, appends: int, events: int, size: int, *, synced: bool) -> int:
        """So many appends of so many events, each acknowledged one marked; the head then."""
        store = self._held()
        for done in range(appends):
            assert self._head is not None
            seqs = range(self._head + 1, self._head + 1 + events)
            made = tuple(
                an_event(self._run, seq, fence=self._fence, body=body_of(self._run, seq, size))
                for seq in seqs
            )
            before, self._head = self._head, None
            (outcome,) = store.append([Append(self._run, self._fence, before, made, synced=synced)])
            if not isinstance(outcome, Appended):
                raise Refused(f"{self._run} behind {before}, append {done}: {outcome}")
            self._head = outcome.head
            self._shim.mark(self._number, self._head, is_synced=synced)
        assert self._head is not None
        return self._head

    def sync(self) -> int:
        store = self._held()
        head = self._head
        store.sync()
        assert head is not None
        self._shim.mark(self._number, head, is_synced=True)
        return head

    def beat(self) -> None:
        lost = self._held().renew({self._run: self._fence}, at=AT)
        if lost:
            raise Refused(f"{self._run} is not held any more")

    def settle(self) -> int:
        """Nothing is wrong any more: an append must work, with an unknown outcome or two before it at most."""
        for _ in range(_TRIES - 1):
            try:
                return self.append(1, 1, 10, synced=True)
            except StoreError:
                continue
        return self.append(1, 1, 10, synced=True)

    def read(self, numbers: list[int]) -> dict[str, int]:
        """How many events each of these runs has, after checking each one."""
        store = self._opened()
        return {str(number): count_events(store, f"r{number}") for number in numbers}

    def _opened(self) -> SqliteStore:
        if self._store is None:
            self._store = SqliteStore(self._path)
        return self._store

    def _held(self) -> SqliteStore:
        """The store, with this child's run in hand and its head known."""
        store = self._opened()
        if self._head is None:
            row = store.find_run(self._run)
            if row is None:
                store.create_run(a_run(self._run))
                row = store.find_run(self._run)
                assert row is not None
            if row.lease.owner != store.owner:
                over = row.lease if row.lease.owner else None
                grant = store.acquire(self._run, at=AT, lease_s=30.0, over=over)
                if not grant.granted:
                    raise Refused(f"{self._run} is not given: {grant}")
                self._fence = grant.lease.fence
            else:
                self._fence = row.lease.fence
            self._head = row.head
        return store

    def fork_bystander(self) -> int:
        """A child that has inherited everything, does nothing, and stays until this world ends."""
        pid = os.fork()
        if pid == 0:
            os.close(self._wire)  # or nobody would learn of this process's end
            with open(self._ledger.with_name(GATE), "rb") as gate:
                gate.read()
            os._exit(0)
        return pid

    # -- others at the same files ----------------------------------------------------------------------------

    def copy(self) -> int:
        """What a backup does, or a linter: open, read and close every file of the directory."""
        return sum(len(entry.read_bytes()) for entry in self._path.parent.iterdir() if entry.is_file())

    def view(self) -> int:
        """What the docs invite to: another SQLite in this very process, a view, and away."""
        connection = sqlite3.connect(self._path)
        try:
            return len(connection.execute("select * from tool_counts").fetchall())
        finally:
            connection.close()

    def watch(self) -> None:
        """The same in a thread, again and again, until ``unwatch`` or the end."""
        self.unwatch()
        self._watches = stop = threading.Event()

        def look() -> None:
            while not stop.is_set():
                with suppress(sqlite3.Error):
                    self.view()

        threading.Thread(target=look, daemon=True).start()

    def unwatch(self) -> None:
        self._watches.set()

    def hold_reading(self) -> None:
        """A reader of the WAL that stays."""
        self.end_reading()
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("begin")
        connection.execute("select count(*) from runs").fetchall()
        self._foreign["reader"] = connection

    def end_reading(self) -> None:
        reader = self._foreign.pop("reader", None)
        if reader is not None:
            reader.close()

    def checkpoint(self, mode: str) -> list[int]:
        """Somebody's shell folds the WAL."""
        connection = sqlite3.connect(self._path, timeout=0)
        try:
            return list(connection.execute(f"pragma wal_checkpoint({mode})").fetchone())
        finally:
            connection.close()

    # -- the oracle's eyes -----------------------------------------------------------------------------------

    def examine(self, database: str) -> dict[str, Any]:
        """Open a store as the next process would: what is in it, does it take more, is it sound?"""
        self._mute()
        self._path, self._number, self._run = Path(database), 0, "examiner"
        self._store = self._head = None
        store = self._opened()
        try:
            runs = [row.run for row in store.list_runs(limit=100)]
            found = {run: count_events(store, run) for run in runs if re.fullmatch(r"r\d", run)}
            steps = finished_steps(store, "program") if "program" in runs else []
            self.append(1, 1, 10, synced=True)
        finally:
            self.close()
        connection = apsw.Connection(database)
        verdict = [row[0] for row in connection.execute("pragma integrity_check")]
        connection.close()
        return {"runs": found, "steps": steps, "integrity": verdict}


def body_of(run: str, seq: int, size: int) -> bytes:
    """Content that is known from where it stands: whoever reads it knows whether it is right."""
    head = b'{"at":"%s:%d:%d"}' % (run.encode(), seq, size)
    return head + b" " * max(0, size - len(head))


def count_events(store: SqliteStore, run: str) -> int:
    """The length of a journal, every event of which is the right one at its place. AssertionError otherwise."""
    count = 0
    while page := store.read_events(run, after_seq=count, limit=_PAGE):
        for event in page:
            assert event.seq == count + 1, f"{run}: event {event.seq} stands behind {count}"
            begun = b'{"at":"%s:%d:' % (run.encode(), event.seq)
            assert event.body.startswith(begun), f"{run}: event {event.seq} holds {event.body[:40]!r}"
            size = int(event.body[len(begun) :].split(b'"', 1)[0])
            assert event.body == body_of(run, event.seq, size), f"{run}: event {event.seq} is damaged"
            count += 1
    return count


def finished_steps(store: SqliteStore, run: str) -> list[str]:
    """The names of the steps whose outcome is recorded."""
    names: list[str] = []
    seq = 0
    while page := store.read_events(run, after_seq=seq, limit=_PAGE):
        names += [event.name for event in page if event.kind in ("step.finished", "step.settled")]
        seq = page[-1].seq
    return names
