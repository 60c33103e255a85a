"""The store of the simulation: its data, what of it is only flushed, and who may write to a run.

The data are a memory store's. Before a write that is only flushed, the rows that it changes are noted, so that a power cut can
take back the newest of them: as in a write-ahead log, a synced write makes everything before it durable. The leases are noted
here a second time, by what was granted: the store's own check of the fence is one of the things under test.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from holdfast.model.store_rows import Append, Appended, Grant, RunRow, inbox_space
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.in_memory_rows import MemoryTables

T = TypeVar("T")

READS: Final = frozenset({
    "find_run", "list_runs", "list_forks", "read_events", "count_kinds", "measure", "get_blobs", "scan_blobs", "probe", "list_held",
    "get_record", "scan_records", "wait", "examine", "find_index", "close", "note_call", "find_call_note",
})  # fmt: skip
"""The verbs that change nothing, or only the note of a call, which costs no write."""


class Disk:
    """One store: the tables that survive a process, and the part of them that does not survive a power cut."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tables = MemoryTables()
        self.unsynced: list[Callable[[], None]] = []
        """How to take back each write since the last sync, oldest first."""
        self.granted: dict[str, tuple[int, str]] = {}
        """By run: the fence and the owner of the lease that was granted last."""
        self.broken: list[str] = []
        """Writes that the store should have refused."""

    def open(self, owner: str) -> MemoryStore:
        """The store as one process sees it."""
        made = MemoryStore(self.name)
        made._tables = self.tables  # type: ignore[misc]  # its own, not those of a name
        made._owner = owner  # type: ignore[misc]
        return made

    def do(self, owner: str, verb: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Carry out one call of the port, and note what it means."""
        name = verb.__name__
        if name in READS:
            return verb(*args, **kwargs)
        undo = self._undo_of(name, args, kwargs)
        given = verb(*args, **kwargs)
        if undo is None:
            self.unsynced.clear()
        else:
            self.unsynced.append(undo)
        self._note(name, owner, given, args, kwargs)
        return given

    def holder(self, run: str) -> tuple[int, str]:
        """The fence and the owner of the last granted lease."""
        return self.granted.get(run, (0, ""))

    def cut_power(self, kept: int) -> int:
        """Lose the flushed writes but the first of them; how many are lost."""
        lost = self.unsynced[kept:]
        for undo in reversed(lost):
            undo()
        self.unsynced.clear()
        return len(lost)

    def _note(self, name: str, owner: str, given: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if name == "acquire" and isinstance(given, Grant) and given.granted:
            self.granted[args[0]] = (given.lease.fence, owner)
        elif name == "claim":
            self.granted |= {row.run: (row.lease.fence, owner) for row in given}
        elif name == "append":
            for item, outcome in zip(args[0], given, strict=True):
                if isinstance(outcome, Appended):
                    self._check(item.run, item.fence, owner, "append")
        elif name == "replace_events" and given:
            self._check(args[0], kwargs["fence"], owner, name)

    def _check(self, run: str, fence: int, owner: str, verb: str) -> None:
        """Nobody writes late: only the last lease that was granted may change a journal."""
        if self.holder(run) != (fence, owner):
            now, by = self.holder(run)
            self.broken.append(f"{verb} of {owner} to {run} under fence {fence} was accepted; {by} has {now}")

    def _undo_of(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], None] | None:
        """How to take the write back; None if it is synced."""
        tables = self.tables
        if name == "append" and not any(item.synced for item in args[0]):
            return self._undo_append(args[0])
        if name == "renew":
            return self._undo_rows([tables.runs[run] for run in args[0] if run in tables.runs])
        if name == "release":
            row = tables.runs.get(args[0])
            return self._undo_rows([] if row is None else [row])
        if name == "create_run" and not kwargs.get("synced", True) and args[0].run not in tables.runs:
            return self._undo_create(args[0].run)
        if name == "put_record" and not kwargs.get("synced", True):
            return self._undo_record(args[0], args[1])
        return None

    def _undo_create(self, run: str) -> Callable[[], None]:
        def undo() -> None:
            del self.tables.runs[run], self.tables.events[run]

        return undo

    def _undo_rows(self, rows: Sequence[RunRow]) -> Callable[[], None]:
        def undo() -> None:
            for row in rows:
                if row.run in self.tables.runs:
                    self.tables.runs[row.run] = self.tables.runs[row.run]._replace(lease=row.lease)

        return undo

    def _undo_record(self, space: str, key: str) -> Callable[[], None]:
        found = self.tables.records.get(space, {}).get(key)

        def undo() -> None:
            if found is None:
                self.tables.records.get(space, {}).pop(key, None)
            else:
                self.tables.put_record(found)

        return undo

    def _undo_append(self, items: Sequence[Append]) -> Callable[[], None]:
        tables = self.tables
        runs = {item.run for item in items if item.run in tables.runs}
        rows = {run: tables.runs[run] for run in runs}
        lengths = {run: len(tables.events[run]) for run in runs}
        sums = {run: tables.sums["status", run] for run in runs}
        letters = {inbox_space(run): dict(tables.records.get(inbox_space(run), {})) for run in runs}
        brought = {blob.address for item in items for blob in item.blobs} - tables.blobs.keys()

        def undo() -> None:
            for run, row in rows.items():
                tables.runs[run] = row
                del tables.events[run][lengths[run] :]
                tables.sums["status", run] = sums[run]
            tables.records |= letters
            for address in brought:
                tables.blobs.pop(address, None)
                tables.touched.pop(address, None)

        return undo
