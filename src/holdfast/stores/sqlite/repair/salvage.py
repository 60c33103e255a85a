"""A damaged SQLite store, read page by page, each row compared with its checksum.

It recognises our tables by the form of their rows, so it needs no schema, no index and no page but the row's
own. If several pages have different versions of a row, the last written one counts. The invariant: nothing is
returned that fails its checksum, and nothing that was deleted, as far as the pointer map shows it.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from holdfast.clock import SystemClock
from holdfast.model.events import Event, Links, covers_from, is_intact
from holdfast.model.salvage import RunRemains
from holdfast.model.store_rows import Blob, Lease, Record, RunRow, Status
from holdfast.stores import row_checksums
from holdfast.stores.sqlite.acknowledged_heads import Head, Heads, digest
from holdfast.stores.sqlite.locks.owners import owners_of
from holdfast.stores.sqlite.repair.pages import Pages, Row

_SEQ_MASK: Final = (1 << 32) - 1
_EVENT: Final = frozenset({8, 9})
_RECORD: Final = frozenset({5, 6})
_RUN: Final = frozenset({17, 19})
_BLOB: Final = 4


class SqliteRemains:
    """Implements ``Remains``. May raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lost: list[str] = []
        self.loss_known = False
        self._found_any = False
        self._rows: dict[int, RunRow] = {}
        self._events: dict[int, dict[int, list[Event]]] = {}
        self._records: dict[tuple[str, str], Record] = {}
        pages = Pages(path)
        try:
            for row in pages.rows():
                self._found_any = True
                self._take(row)
        finally:
            pages.close()

    def runs(self) -> list[RunRemains]:
        heads = _heads(self._path)
        self.loss_known = bool(heads)
        found = {row.run: self._remains(number, row, heads) for number, row in self._rows.items()}
        there = {digest(run) for run in found}
        found |= self._without_row([head for known, head in heads.items() if known not in there])
        if not self._found_any and not found:
            self.lost.append("nothing in the file could be read")
        for number in self._events.keys() - self._rows.keys():
            self.lost.append(
                f"{len(self._events[number]):,} events of a run whose row is lost (number {number})"
            )
        ordered: dict[str, RunRemains] = {}
        for run in sorted(found):
            self._place(run, found, ordered, ())
        return list(ordered.values())

    def records(self) -> list[Record]:
        return [record for _, record in sorted(self._records.items())]

    def blobs(self) -> Iterator[Blob]:
        pages = Pages(self._path)
        try:
            for _, values in pages.rows():
                if len(values) == _BLOB and isinstance(values[1], str) and isinstance(values[3], bytes):
                    yield Blob(values[1], values[3])
        finally:
            pages.close()

    # -- rows ------------------------------------------------------------------------------------------------

    def _take(self, row: Row) -> None:
        """A row of the table that its form fits; others are SQLite's own, or too damaged."""
        values = row.values
        if len(values) in _EVENT and isinstance(values[2], str) and isinstance(values[6], bytes):
            self._take_event(row)
        elif len(values) in _RUN and isinstance(values[1], str):
            self._take_run(row)
        elif len(values) in _RECORD and isinstance(values[1], str) and isinstance(values[4], bytes):
            self._take_record(values)

    def _take_event(self, row: Row) -> None:
        number, seq = row.rowid >> 32, row.rowid & _SEQ_MASK
        at, kind, name, key, fence, body, crc, *chain = row.values[1:]
        values: Any = (seq, _real(at), kind, name, key, fence, body, crc, chain[0] if chain else 0)
        self._events.setdefault(number, {}).setdefault(seq, []).append(Event(*values))

    def _take_run(self, row: Row) -> None:
        values: Any = row.values
        # A store of format 1 has its checksums after the body, a new one before it.
        *_, last = values
        body, crc, status = (
            (last, *values[16:18])
            if len(values) == 19 and isinstance(last, bytes)
            else (
                values[16],
                *(values[17:19] or (None, None)),
            )
        )
        made = RunRow(
            run=values[1], birth=values[12], created_at=_real(values[10]), status=values[11], body=body,
            origin=values[13], origin_seq=values[2], revision=values[9],
            lease=Lease(fence=values[3]), agent=values[14], due_at=_real(values[15]),
        )  # fmt: skip
        judged = row_checksums.judged(made, crc, status)
        if judged.damage:
            self.lost.append(judged.damage)
            return
        known = self._rows.get(row.rowid)
        if known is None or known.revision <= judged.revision:
            self._rows[row.rowid] = judged

    def _take_record(self, values: tuple[Any, ...]) -> None:
        record = row_checksums.judged_record(Record(*values[1:5]), values[5] if len(values) == 6 else None)
        if record.damage:
            self.lost.append(record.damage)
            return
        known = self._records.get((record.space, record.key))
        if known is None or known.revision <= record.revision:
            self._records[record.space, record.key] = record

    # -- runs ------------------------------------------------------------------------------------------------

    def _without_row(self, heads: Iterable[Head]) -> dict[str, RunRemains]:
        """Runs of which only an acknowledged head is known: they must not start again in silence."""
        found: dict[str, RunRemains] = {}
        for head in heads:
            if digest(head.name) != head.run_digest:  # the slot does not hold all of a long id
                self.lost.append(f"run {head.name}, of which #{head.seq} was acknowledged")
                continue
            row = RunRow(head.name, os.urandom(16).hex(), SystemClock.wall(), Status.INTERRUPTED, b"{}")
            found[head.name] = RunRemains(row, (), (), head.seq)
        return found

    def _remains(self, number: int, row: RunRow, heads: dict[bytes, Head]) -> RunRemains:
        found = self._events.get(number, {})
        links = Links(None if row.origin_seq else 0, row.birth)
        good: list[Event] = []
        after = row.origin_seq
        for seq in sorted(found):
            event = _first_fitting(row.run, found[seq], links, after)
            if event is None:
                break
            good.append(event)
            after = seq
        beyond = tuple(
            next(event for event in found[seq] if is_intact(row.run, event))
            for seq in sorted(found)
            if seq > after and any(is_intact(row.run, event) for event in found[seq])
        )
        head = max([after, *(event.seq for event in beyond)])
        known = heads.get(digest(row.run))
        if known is not None and known.misses(row.birth, head):
            head = max(head + 1, known.seq)
        if row.status == Status.IMPORTING:
            self.lost.append(f"run {row.run} was being imported and is not whole: import it again")
        return RunRemains(row, tuple(good), beyond, head)

    def _place(
        self, run: str, found: dict[str, RunRemains], ordered: dict[str, RunRemains], way: Iterable[str]
    ) -> bool:
        """Put a run after its origin; False if its history is lost and cannot be read."""
        if run in ordered:
            return True
        remains = found.get(run)
        if remains is None or run in way or remains.row.status == Status.IMPORTING:
            return False
        origin = remains.row.origin
        if origin is not None:
            is_there = self._place(origin, found, ordered, (*way, run))
            base = found.get(origin)
            ends = None if base is None else base.events[-1].seq if base.events else base.row.origin_seq
            if not is_there or ends is None or ends < remains.row.origin_seq:
                self.lost.append(
                    f"run {run} was forked from #{remains.row.origin_seq} of {origin}, which is lost"
                )
                return False
        ordered[run] = remains
        return True


def _first_fitting(run: str, versions: list[Event], links: Links, after: int) -> Event | None:
    """The version of an event that follows the one before it; None if none does."""
    for event in versions:
        before = links.before
        if covers_from(event) <= after + 1 and is_intact(run, event) and links.fits(event):
            return event
        links.before = before
    return None


def _real(value: Any) -> Any:
    """SQLite stores an integral number in a REAL column as an integer."""
    return float(value) if type(value) is int else value


def _heads(path: Path) -> dict[bytes, Head]:
    """What was acknowledged of each run, by the digest of its id: none where the side file is not there."""
    if not path.with_name(path.name + "-owners").exists():
        return {}
    return {head.run_digest: head for head in Heads(owners_of(path), path).all()}
