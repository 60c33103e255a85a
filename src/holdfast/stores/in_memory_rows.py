"""The data of a memory store: plain dicts of immutable rows, by name, for as long as the process lives.

It knows what an append changes; it knows no handle. The caller must hold ``changed``.
"""

import os
import threading
from collections.abc import Sequence

from holdfast.model.events import Event
from holdfast.model.store_rows import (
    Append,
    Appended,
    AppendOutcome,
    Blob,
    CallNote,
    Cursor,
    Lease,
    Record,
    Refusal,
    Removal,
    RunRow,
    inbox_space,
)
from holdfast.stores.row_checksums import judged, judged_record, record_crc, run_crc, status_crc


class MemoryTables:
    """The data of one name, and the condition that guards it and reports changes."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.runs: dict[str, RunRow] = {}
        self.events: dict[str, list[Event]] = {}
        self.blobs: dict[str, bytes] = {}
        self.touched: dict[str, float] = {}
        self.records: dict[str, dict[str, Record]] = {}
        self.sums: dict[tuple[str, ...], int] = {}
        """Checksums: of a row under ("run", run), a status under ("status", run), a record under its key."""
        self.notes: dict[str, tuple[str, CallNote]] = {}
        """Of each run the birth id, and the note of the call that its holder makes."""
        self.fences = 0
        """The highest fence of a deleted run: no late writer may write to a new run of the same name."""

    def standing(self, run: str) -> Cursor:
        row = self.runs.get(run)
        if row is None:
            return Cursor(0, 0)
        return Cursor(row.lease.fence, row.head, len(self.records.get(inbox_space(run), ())))

    def create(self, row: RunRow, origin_revision: int) -> bool:
        """Add a run; a fork only if its origin still has the revision that the caller saw."""
        if row.run in self.runs:
            return False
        if row.origin is not None:
            origin = self.runs.get(row.origin)
            if origin is None or origin.revision != origin_revision:
                return False
            self.runs[row.origin] = origin._replace(revision=origin_revision + 1)
        self.put_row(row._replace(head=row.origin_seq, revision=1, lease=Lease(self.fences)))
        self.events[row.run] = []
        return True

    def put_row(self, row: RunRow) -> None:
        """Write a row, and its checksums."""
        self.runs[row.run] = row
        self.sums["run", row.run] = run_crc(row)
        self.sums["status", row.run] = status_crc(row.run, row.status)

    def find(self, run: str) -> RunRow | None:
        """The row, checked."""
        row = self.runs.get(run)
        return None if row is None else self.judged(row)

    def judged(self, row: RunRow) -> RunRow:
        """The row, and what is wrong with it."""
        return judged(row, self.sums.get(("run", row.run)), self.sums.get(("status", row.run)))

    def put_record(self, record: Record) -> None:
        """Write a record, and its checksum."""
        self.records.setdefault(record.space, {})[record.key] = record
        self.sums["record", record.space, record.key] = record_crc(*record[:4])

    def find_record(self, space: str, key: str) -> Record | None:
        """The record, checked."""
        record = self.records.get(space, {}).get(key)
        if record is None:
            return None
        return judged_record(record, self.sums.get(("record", space, key)))

    def delete(self, removal: Removal) -> bool:
        """Remove a run that is still as the caller saw it and that no other run depends on."""
        run, fence, revision, records = removal
        row = self.runs.get(run)
        if row is None or (row.lease.fence, row.revision) != (fence, revision):
            return False
        if any(other.origin == run for other in self.runs.values()):
            return False
        for space, key in records:
            self.records.get(space, {}).pop(key, None)
        self.fences = max(self.fences, fence + 1)
        del self.runs[run], self.events[run]
        self.notes.pop(run, None)
        self.records.pop(inbox_space(run), None)
        return True

    def adopt(self, run: str, of: str, fence: int, revision: int) -> bool:
        """Give a run another one's events and origin, and delete that one."""
        row, other = self.runs.get(run), self.runs.get(of)
        if row is None or (row.lease.fence, row.revision) != (fence, revision):
            return False
        if other is None or any(fork.origin == of for fork in self.runs.values()):
            return False
        assert other.head == row.head, f"{run} ends at {row.head} and {of} at {other.head}"
        self.put_row(
            row._replace(origin=other.origin, origin_seq=other.origin_seq, revision=row.revision + 1)
        )
        self.events[run] = self.events[of]
        self.fences = max(self.fences, other.lease.fence + 1)
        del self.runs[of], self.events[of]
        self.records.pop(inbox_space(of), None)
        return True

    def find_note(self, run: str) -> CallNote | None:
        """The note of a call, if it was written behind the run's head, and not before the head was."""
        row, (birth, note) = self.runs.get(run), self.notes.get(run, ("", None))
        own = self.events.get(run)
        if row is None or note is None or not own or row.birth != birth or row.head != note.after_seq:
            return None
        return note if note.fence in {own[-1].fence, row.lease.fence} else None

    def missing(self, blobs: Sequence[Blob]) -> tuple[str, ...]:
        """The addresses that are neither stored nor in the append."""
        brought = {blob.address for blob in blobs if blob.data is not None}
        return tuple(b.address for b in blobs if b.address not in brought and b.address not in self.blobs)

    def keep(self, blob: Blob, at: float) -> None:
        if blob.data is not None:
            self.blobs.setdefault(blob.address, blob.data)
        self.touched[blob.address] = max(at, self.touched.get(blob.address, at))

    def append(self, item: Append) -> AppendOutcome:
        """Accept one item or refuse it; all checks come before any change."""
        row = self.runs.get(item.run)
        if row is None:
            return Refusal("unknown")
        if row.lease.fence != item.fence:
            return Refusal("fenced", row.head, row.lease)
        if row.head != item.after_seq:
            return Refusal("conflict", row.head, row.lease)
        missing = self.missing(item.blobs)
        if missing:
            return Refusal("missing", row.head, row.lease, missing)
        for blob in item.blobs:
            self.keep(blob, item.events[0].at)
        for letter in item.consumed:
            self.records.get(inbox_space(item.run), {}).pop(letter, None)
        self.events[item.run].extend(item.events)
        head = item.events[-1].seq if item.events else item.after_seq
        self.runs[item.run] = row = row._replace(head=head)
        if item.status is not None:
            self.runs[item.run] = row._replace(status=item.status, revision=row.revision + 1)
            self.sums["status", item.run] = status_crc(item.run, item.status)
        return Appended(head)


_tables_by_name: dict[str, MemoryTables] = {}
_shelves_lock = threading.Lock()


def memory_tables(name: str) -> MemoryTables:
    """The data of that name, shared by this process; a forked child starts empty."""
    with _shelves_lock:
        return _tables_by_name.setdefault(name, MemoryTables())


def _clear_after_fork() -> None:
    global _shelves_lock  # noqa: PLW0603 - it may have been held by a thread that does not exist here
    _shelves_lock = threading.Lock()
    _tables_by_name.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_clear_after_fork)
