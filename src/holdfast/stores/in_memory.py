"""The store in this process's memory: a peer of the others, not a mock; lost when the process ends.

It knows the port's rules; ``in_memory_rows`` has the dicts. All methods run under one lock, so the invariant
is simple: between two calls everything is as the port says. Handles of one name share their data, for as long
as the process lives.
"""

import os
import platform
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.errors import Corrupt, ForkedHandle, HandleClosed, StoreError
from holdfast.model.events import Event, Links, uncovered
from holdfast.model.store_rows import (
    Append,
    AppendOutcome,
    Blob,
    BlobInfo,
    CallNote,
    Cursors,
    Finding,
    Grant,
    Lease,
    Liveness,
    Record,
    Removal,
    RunRow,
    RunSize,
    Status,
)
from holdfast.stores import bounds, row_checksums
from holdfast.stores.in_memory_rows import MemoryTables, memory_tables


class MemoryStore:
    """A store for tests and throw-away work.

    Implements ``StorePort``; "durable" here means until the process ends.
    """

    is_sealed: bool = False

    def __init__(self, name: str = "") -> None:
        self._name: Final = name
        self._pid: Final = os.getpid()
        self._closed = False
        self._tables: Final = memory_tables(name)
        self._owner: Final = f"{self._pid}@{platform.node()}/memory"

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def owner(self) -> str:
        return self._owner

    @property
    def owned_by(self) -> str | None:
        return ""

    @property
    def is_open(self) -> bool:
        """Whether this handle can still be used in this process."""
        return not self._closed and self._pid == os.getpid()

    # -- runs ------------------------------------------------------------------------------------------------

    def create_run(self, row: RunRow, *, origin_revision: int = 0, synced: bool = True) -> bool:
        del synced  # nothing here survives the process
        bounds.check_run_body(row.run, row.body)
        with self._changing() as tables:
            return tables.create(row, origin_revision)

    def find_run(self, run: str, *, damaged: bool = False) -> RunRow | None:
        with self._using() as shelf:
            row = shelf.find(run)
        return row if row is None or damaged else row_checksums.sound(row, self.url)

    def list_runs(self, *, limit: int, before: RunRow | None = None, prefix: str = "") -> list[RunRow]:
        bounds.check_page("runs", limit, limits.RUN_PAGE_MAX)
        with self._using() as tables:
            rows = [tables.judged(row) for row in tables.runs.values() if row.run.startswith(prefix)]
        if before is not None:
            rows = [row for row in rows if _age(row) < _age(before)]
        return sorted(rows, key=_age, reverse=True)[:limit]

    def list_forks(self, run: str, *, after: str = "", limit: int) -> list[RunRow]:
        bounds.check_page("forks", limit, limits.RUN_PAGE_MAX)
        with self._using() as tables:
            rows = [row for row in tables.runs.values() if row.origin == run and row.run > after]
        return sorted(rows, key=lambda row: row.run)[:limit]

    def swap_run(self, run: str, *, revision: int, status: str, body: bytes) -> bool:
        bounds.check_run_body(run, body)
        with self._changing() as tables:
            row = tables.find(run)
            if row is None or row.revision != revision:
                return False
            row = row_checksums.sound(row, self.url)
            tables.put_row(row._replace(status=status, body=body, revision=revision + 1))
            return True

    def delete_runs(self, removals: Sequence[Removal]) -> list[bool]:
        bounds.check_removals(removals)
        with self._changing() as tables:
            return [tables.delete(removal) for removal in removals]

    # -- events ----------------------------------------------------------------------------------------------

    def append(self, items: Sequence[Append]) -> list[AppendOutcome]:
        bounds.check_items(items)
        with self._changing() as tables:
            return [tables.append(item) for item in items]

    def read_events(
        self,
        run: str,
        *,
        after_seq: int = 0,
        upto_seq: int | None = None,
        limit: int,
        kinds: Collection[str] = (),
        skip: int = 0,
    ) -> list[Event]:
        bounds.check_page("events", limit, limits.EVENT_PAGE_MAX)
        bounds.check_skip(kinds, skip)
        with self._using() as tables:
            events = tables.events.get(run, [])
            start = bisect_right(events, after_seq, key=_seq)
            stop = len(events) if upto_seq is None else bisect_right(events, upto_seq, key=_seq)
            if not kinds:
                return events[start : min(stop, start + limit)]
            fitting = (event for event in islice(events, start, max(start, stop)) if event.kind in kinds)
            return list(islice(fitting, skip, skip + limit))

    def count_kinds(self, run: str, *, after_seq: int = 0, upto_seq: int = limits.SEQ_MAX) -> dict[str, int]:
        with self._using() as tables:
            own = tables.events.get(run, [])
            return dict(Counter(event.kind for event in own if after_seq < event.seq <= upto_seq))

    def replace_events(
        self,
        run: str,
        *,
        fence: int,
        revision: int,
        after_seq: int,
        upto_seq: int,
        events: Sequence[Event],
        blobs: Sequence[Blob] = (),
        at: float = 0.0,
    ) -> bool:
        bounds.check_replacement(run, after_seq, upto_seq, events, blobs)
        with self._changing() as tables:
            row = tables.runs.get(run)
            if row is None or (row.lease.fence, row.revision) != (fence, revision) or tables.missing(blobs):
                return False
            assert row.origin_seq <= after_seq < upto_seq <= row.head, (
                f"run {run} has no stretch ({after_seq}, {upto_seq}]"
            )
            for blob in blobs:
                tables.keep(blob, max(at, events[-1].at))
            own = tables.events[run]
            start, stop = (bisect_right(own, seq, key=_seq) for seq in (after_seq, upto_seq))
            own[start:stop] = events
            tables.runs[run] = row._replace(revision=revision + 1)
            return True

    def adopt_events(self, run: str, *, of: str, fence: int, revision: int) -> bool:
        with self._changing() as tables:
            return tables.adopt(run, of, fence, revision)

    def measure(self, run: str) -> RunSize:
        with self._using() as tables:
            own = tables.events.get(run, [])
            return RunSize(len(own), sum(len(event.body) for event in own))

    def note_call(self, run: str, content: bytes, *, fence: int, after_seq: int) -> None:
        row = self._tables.runs.get(run)  # without the lock: a note is one entry, and every step writes one
        if row is not None:
            self._tables.notes[run] = row.birth, CallNote(fence, after_seq, content)

    def find_call_note(self, run: str) -> CallNote | None:
        with self._using() as tables:
            return tables.find_note(run)

    # -- blobs -----------------------------------------------------------------------------------------------

    def put_blobs(self, blobs: Sequence[Blob], *, at: float) -> None:
        bounds.check_blobs(blobs)
        with self._changing() as tables:
            for blob in blobs:
                assert blob.data is not None, f"blob {blob.address} is put without content"
                tables.keep(blob, at)

    def get_blobs(self, addresses: Sequence[str]) -> dict[str, bytes]:
        with self._using() as tables:
            return {address: tables.blobs[address] for address in addresses if address in tables.blobs}

    def delete_blobs(self, addresses: Sequence[str], *, untouched_since: float) -> int:
        with self._changing() as tables:
            doomed = {a for a in addresses if a in tables.blobs and tables.touched[a] < untouched_since}
            for address in doomed:
                del tables.blobs[address], tables.touched[address]
            return len(doomed)

    def scan_blobs(self, *, after: str = "", limit: int) -> list[BlobInfo]:
        bounds.check_page("blobs", limit, limits.BLOB_PAGE_MAX)
        with self._using() as tables:
            found = sorted(address for address in tables.blobs if address > after)[:limit]
            return [BlobInfo(a, len(tables.blobs[a]), tables.touched[a]) for a in found]

    def blob_name(self, address: str) -> str:
        return address

    # -- leases ----------------------------------------------------------------------------------------------

    def acquire(
        self, run: str, *, at: float, lease_s: float, over: Lease | None = None, above: int = 0
    ) -> Grant:
        with self._changing() as tables:
            row = tables.runs.get(run)
            if row is None:
                return Grant(False, Lease())
            held = row.lease
            if held.owner and (over is None or (over.fence, over.beat) != (held.fence, held.beat)):
                return Grant(False, held)
            lease = Lease(max(held.fence, above) + 1, self._owner, 0, at, at, lease_s)
            taken = tables.runs[run] = row._replace(lease=lease)
            return Grant(True, lease, None if taken.damage else taken)

    def accept_loss(self, run: str) -> int:  # noqa: ARG002 - what it holds and what it acknowledged is one memory
        with self._changing():
            return 0

    def renew(self, fences: Mapping[str, int], *, at: float) -> frozenset[str]:
        lost: set[str] = set()
        with self._changing() as tables:
            for run, fence in fences.items():
                row = tables.runs.get(run)
                if row is None or not _is_held(row, fence):
                    lost.add(run)
                else:
                    lease = row.lease._replace(beat=row.lease.beat + 1, beat_at=at)
                    tables.runs[run] = row._replace(lease=lease)
        return frozenset(lost)

    def release(self, run: str, *, fence: int) -> bool:
        with self._changing() as tables:
            row = tables.runs.get(run)
            if row is None or not _is_held(row, fence):
                return False
            tables.runs[run] = row._replace(lease=Lease(fence))
            return True

    def probe(self, owner: str) -> Liveness:
        with self._using():
            return "alive" if owner == self._owner else "unknown"

    # -- the queue -------------------------------------------------------------------------------------------

    def claim(self, agents: Sequence[str], *, at: float, lease_s: float, limit: int) -> list[RunRow]:
        bounds.check_claim(agents, limit)
        with self._changing() as tables:
            due = [
                tables.judged(row) for row in tables.runs.values() if row.agent in agents and _is_due(row, at)
            ]
            claimed = [
                row._replace(lease=Lease(row.lease.fence + 1, self._owner, 0, at, at, lease_s))
                for row in sorted(row_checksums.undamaged(due, self.url), key=_longest_due)[:limit]
            ]
            tables.runs.update({row.run: row for row in claimed})
            tables.runs.update({r.run: tables.runs[r.run]._replace(due_at=None) for r in due if r.damage})
            return claimed

    def list_held(self, agents: Sequence[str], *, after: str = "", limit: int) -> list[RunRow]:
        bounds.check_claim(agents, limit)
        with self._using() as tables:
            held = [
                tables.judged(row) for row in tables.runs.values() if row.agent in agents and row.lease.owner
            ]
        return sorted((row for row in held if row.run > after), key=lambda row: row.run)[:limit]

    def set_due(self, run: str, *, fence: int, due_at: float | None) -> bool:
        with self._changing() as tables:
            row = tables.runs.get(run)
            if row is None or not _is_held(row, fence):
                return False
            tables.runs[run] = row._replace(due_at=due_at)
            return True

    def call_up(self, run: str, *, at: float) -> bool:
        with self._changing() as tables:
            row = tables.runs.get(run)
            if row is None or not row.agent:
                return False
            tables.runs[run] = row._replace(due_at=at if row.due_at is None else min(at, row.due_at))
            return True

    # -- records ---------------------------------------------------------------------------------------------

    def get_record(self, space: str, key: str) -> Record | None:
        with self._using() as tables:
            record = tables.find_record(space, key)
        if record is not None and record.damage:
            raise Corrupt(store=self.url, problem=record.damage)
        return record

    def put_record(self, space: str, key: str, body: bytes, *, revision: int, synced: bool = True) -> bool:
        del synced
        bounds.check_record(space, key, body)
        with self._changing() as tables:
            found = tables.find_record(space, key)
            stored = 0 if found is None or (found.damage and not revision) else found.revision
            if stored != revision:
                return False
            tables.put_record(Record(space, key, revision + 1, body))
            return True

    def scan_records(
        self, space: str, *, after: str = "", prefix: str = "", limit: int, damaged: bool = False
    ) -> list[Record]:
        bounds.check_page("records", limit, limits.RECORD_PAGE_MAX)

        def page(behind: str, count: int) -> list[Record]:
            keys = sorted(
                key for key in tables.records.get(space, ()) if key > behind and key.startswith(prefix)
            )
            return [found for key in keys[:count] if (found := tables.find_record(space, key)) is not None]

        with self._using() as tables:
            return row_checksums.scanned(page, after, limit, self.url, damaged=damaged)

    def delete_record(self, space: str, key: str, *, revision: int) -> bool:
        with self._changing() as tables:
            records = tables.records.get(space, {})
            if key not in records or records[key].revision != revision:
                return False
            del records[key]
            return True

    # -- the rest --------------------------------------------------------------------------------------------

    def wait(self, cursors: Cursors, *, timeout_s: float) -> frozenset[str]:
        deadline = SystemClock.monotonic() + timeout_s
        with self._using() as tables:
            while True:
                moved = frozenset(run for run, cursor in cursors.items() if tables.standing(run) != cursor)
                left_s = deadline - SystemClock.monotonic()
                if moved or left_s <= 0:
                    return moved
                tables.changed.wait(left_s)
                self._check()

    def sync(self) -> None:
        with self._using():
            pass

    def reclaim(self, *, thoroughly: bool = False) -> int:
        del thoroughly
        with self._using():
            return 0  # deleted data takes no space

    def find_index(self, *, makes: bool = True) -> None:  # noqa: ARG002
        return None

    def drop_index(self, *, because: StoreError | None = None) -> bool:  # noqa: ARG002
        return False  # there is no index

    def examine(self) -> list[Finding]:
        with self._using() as tables:
            whole = {run: own for run, own in tables.events.items() if not _is_partial(tables.runs[run])}
            partial = sorted(tables.events.keys() - whole.keys())
            events = [text for run, own in whole.items() for text in _damage(tables, run, own)]
            rows = [found for row in tables.runs.values() if (found := tables.judged(row).damage)]
            rows += [
                row_checksums.late_fence(run, tables.runs[run].lease.fence, own[-1].fence)
                for run, own in whole.items()
                if own and own[-1].chain and own[-1].fence > tables.runs[run].lease.fence
            ]
            places = [(space, key) for space, kept in tables.records.items() for key in kept]
            kept = [record for place in places if (record := tables.find_record(*place)) is not None]
        text = "kept in this process's memory: not durable storage"
        return [
            Finding("storage", "warning", text, "use sqlite:///path for work that must survive"),
            *(bounds.partial_finding(run) for run in partial),
            *row_checksums.findings("events", events, "every event is what was appended"),
            *row_checksums.findings("runs", rows, "every run's row is what was written"),
            *row_checksums.findings(
                "records",
                [record.damage for record in kept if record.damage],
                "every record is what was written",
                row_checksums.AGAIN,
            ),
        ]

    def close(self) -> None:
        if self.is_open:
            with self._tables.changed:
                self._closed = True
                self._tables.changed.notify_all()

    # -- the lock --------------------------------------------------------------------------------------------

    @contextmanager
    def _using(self) -> Iterator[MemoryTables]:
        self._check()  # before the lock: in a forked child a thread that does not exist there may hold it
        with self._tables.changed:
            self._check()
            yield self._tables

    @contextmanager
    def _changing(self) -> Iterator[MemoryTables]:
        with self._using() as tables:
            yield tables
            tables.changed.notify_all()

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise ForkedHandle(what=f"store {self.url}", opened_by=self._pid, used_by=os.getpid())
        if self._closed:
            raise HandleClosed(what=f"store {self.url}")


def _damage(tables: MemoryTables, run: str, own: list[Event]) -> Iterator[str]:
    """What is wrong with a run's own events."""
    row = tables.runs[run]
    origin, before = row.origin, 0
    while row.origin_seq and origin is not None and origin in tables.runs:
        place = bisect_right(tables.events[origin], row.origin_seq, key=_seq)
        if place:
            before = tables.events[origin][place - 1].chain
            break
        origin = tables.runs[origin].origin
    links = Links(before, row.birth)
    yield from filter(None, (row_checksums.event_damage(run, event, links) for event in own))
    for first, last in uncovered(row.origin_seq, own):
        yield f"no event of run {run} covers {first} to {last}"


def _is_held(row: RunRow, fence: int) -> bool:
    return row.lease.fence == fence and bool(row.lease.owner)


def _is_due(row: RunRow, at: float) -> bool:
    return row.due_at is not None and row.due_at <= at and not row.lease.owner


def _longest_due(row: RunRow) -> tuple[float, float, str]:
    return (row.due_at or 0.0, row.created_at, row.run)


def _is_partial(row: RunRow) -> bool:
    return row.status == Status.IMPORTING


def _seq(event: Event) -> int:
    return event.seq


def _age(row: RunRow) -> tuple[float, str]:
    return (row.created_at, row.run)
