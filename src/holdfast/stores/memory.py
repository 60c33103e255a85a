"""The store in this process's memory: a peer of the others, not a mock; lost when the process ends.

Knows the port's rules; the dicts are ``shelf``'s. All verbs run under one lock, so the invariant is simple: between
two verbs everything stands as the port says. Handles of one name share one shelf, for as long as the process lives.
"""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import ForkedHandle, HandleClosed
from holdfast.model.events import Event, is_intact
from holdfast.model.rows import (
    Append,
    AppendOutcome,
    Blob,
    Cursors,
    Finding,
    Grant,
    Lease,
    Liveness,
    Record,
    RunRow,
)
from holdfast.stores import bounds
from holdfast.stores.shelf import Shelf, shelf_of


class MemoryStore:
    """A store for tests and throw-away work. Implements ``StorePort``; "durable" here means until the process ends."""

    def __init__(self, name: str = "") -> None:
        self._name: Final = name
        self._pid: Final = os.getpid()
        self._closed = False
        self._shelf: Final = shelf_of(name)
        self._owner: Final = f"{self._pid}@{socket.gethostname()}/memory"

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def owner(self) -> str:
        return self._owner

    @property
    def is_open(self) -> bool:
        """Whether this handle can still be used in this process."""
        return not self._closed and self._pid == os.getpid()

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow) -> bool:
        bounds.check_run_body(row.run, row.body)
        with self._changing() as shelf:
            if row.run in shelf.runs:
                return False
            shelf.runs[row.run] = row._replace(head=row.origin_seq, revision=1, lease=Lease())
            shelf.events[row.run] = []
            return True

    def find_run(self, run: str) -> RunRow | None:
        with self._using() as shelf:
            return shelf.runs.get(run)

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        bounds.check_page("runs", limit, limits.RUN_PAGE_MAX)
        with self._using() as shelf:
            rows = [row for row in shelf.runs.values() if row.run.startswith(prefix)]
        if before is not None:
            rows = [row for row in rows if _age(row) < _age(before)]
        return sorted(rows, key=_age, reverse=True)[:limit]

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        bounds.check_run_body(run, body)
        with self._changing() as shelf:
            row = shelf.runs.get(run)
            if row is None or row.revision != revision:
                return False
            shelf.runs[run] = row._replace(status=status, body=body, revision=revision + 1)
            return True

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        bounds.check_items(items)
        with self._changing() as shelf:
            return [shelf.append(item) for item in items]

    def read_events(
        self, run: str, *, after_seq: int = 0, upto_seq: int | None = None, limit: int
    ) -> list[Event]:
        bounds.check_page("events", limit, limits.EVENT_PAGE_MAX)
        with self._using() as shelf:
            events = shelf.events.get(run, [])
            if not events:
                return []
            start = max(0, after_seq + 1 - events[0].seq)
            stop = len(events) if upto_seq is None else max(0, upto_seq + 1 - events[0].seq)
            return events[start : min(stop, start + limit)]

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        bounds.check_blobs(blobs)
        with self._changing() as shelf:
            for blob in blobs:
                assert blob.data is not None, f"blob {blob.address} is put without content"
                shelf.keep(blob, at)

    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        with self._using() as shelf:
            return {address: shelf.blobs[address] for address in addresses if address in shelf.blobs}

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        with self._changing() as shelf:
            doomed = {a for a in addresses if a in shelf.blobs and shelf.touched[a] < untouched_since}
            for address in doomed:
                del shelf.blobs[address], shelf.touched[address]
            return len(doomed)

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(self, run: str, *, at: float, lease_s: float, over: Lease | None = None) -> Grant:
        with self._changing() as shelf:
            row = shelf.runs.get(run)
            if row is None:
                return Grant(False, Lease())
            held = row.lease
            if held.owner and (over is None or (over.fence, over.beat) != (held.fence, held.beat)):
                return Grant(False, held)
            lease = Lease(held.fence + 1, self._owner, 0, at, at, lease_s)
            shelf.runs[run] = row._replace(lease=lease)
            return Grant(True, lease)

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        lost: set[str] = set()
        with self._changing() as shelf:
            for run, fence in fences.items():
                row = shelf.runs.get(run)
                if row is None or not _is_held(row, fence):
                    lost.add(run)
                else:
                    lease = row.lease._replace(beat=row.lease.beat + 1, beat_at=at)
                    shelf.runs[run] = row._replace(lease=lease)
        return frozenset(lost)

    def release(self, run: str, *, fence: int) -> bool:
        with self._changing() as shelf:
            row = shelf.runs.get(run)
            if row is None or not _is_held(row, fence):
                return False
            shelf.runs[run] = row._replace(lease=Lease(fence))
            return True

    def probe(self, owner: str) -> Liveness:
        with self._using():
            return "alive" if owner == self._owner else "unknown"

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        with self._using() as shelf:
            return shelf.records.get(space, {}).get(key)

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        del synced
        bounds.check_record(space, key, body)
        with self._changing() as shelf:
            records = shelf.records.setdefault(space, {})
            stored = records[key].revision if key in records else 0
            if stored != revision:
                return False
            records[key] = Record(space, key, revision + 1, body)
            return True

    def scan_records(self, space: str, *, after: str = "", prefix: str = "", limit: int) -> list[Record]:
        bounds.check_page("records", limit, limits.RECORD_PAGE_MAX)
        with self._using() as shelf:
            records = shelf.records.get(space, {})
            keys = sorted(key for key in records if key > after and key.startswith(prefix))
            return [records[key] for key in keys[:limit]]

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        with self._changing() as shelf:
            records = shelf.records.get(space, {})
            if key not in records or records[key].revision != revision:
                return False
            del records[key]
            return True

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        deadline = SystemClock.monotonic() + timeout_s
        with self._using() as shelf:
            while True:
                moved = frozenset(run for run, cursor in cursors.items() if shelf.standing(run) != cursor)
                left_s = deadline - SystemClock.monotonic()
                if moved or left_s <= 0:
                    return moved
                shelf.changed.wait(left_s)
                self._check()

    def sync(self) -> None:
        with self._using():
            pass

    def examine(self) -> list[Finding]:
        with self._using() as shelf:
            events = [(run, event) for run, own in shelf.events.items() for event in own]
        text = "kept in this process's memory: not durable storage"
        findings = [Finding("storage", "warning", text, "use sqlite:///path for work that must survive")]
        damaged = [(run, event.seq) for run, event in events if not is_intact(run, event)]
        if not damaged:
            return [*findings, Finding("events", "ok", "every event is what was appended")]
        return findings + [
            Finding("events", "failure", f"event {seq} of run {run} fails its checksum")
            for run, seq in damaged
        ]

    def close(self) -> None:
        if self.is_open:
            with self._shelf.changed:
                self._closed = True
                self._shelf.changed.notify_all()

    # -- the lock --------------------------------------------------------------------------------------------

    @contextmanager
    def _using(self) -> Iterator[Shelf]:
        self._check()  # before the lock: in a fork it may be held by a thread that does not exist there
        with self._shelf.changed:
            self._check()
            yield self._shelf

    @contextmanager
    def _changing(self) -> Iterator[Shelf]:
        with self._using() as shelf:
            yield shelf
            shelf.changed.notify_all()

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise ForkedHandle(what=f"store {self.url}", opened_by=self._pid, used_by=os.getpid())
        if self._closed:
            raise HandleClosed(what=f"store {self.url}")


def _is_held(row: RunRow, fence: int) -> bool:
    return row.lease.fence == fence and bool(row.lease.owner)


def _age(row: RunRow) -> tuple[float, str]:
    return (row.created_at, row.run)
