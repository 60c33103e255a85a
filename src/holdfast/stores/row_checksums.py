"""The checksums of rows, and the handling of a damaged row, the same for all stores.

``crc`` of a record covers its key, its revision and its body; that of a run all that never changes, and its
body. A run's status changes without the rest and has its own checksum. What changes with every heartbeat and
every append is not covered: the lease, the due time, the revision. A checksum of None belongs to a row of
format 1, which had none.

A damaged row is named and never used. A request for it raises ``Corrupt``; in lists it is skipped or marked,
so that one bad sector costs one row and not all of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, Final
from zlib import crc32

from holdfast.errors import Corrupt
from holdfast.model.events import Event, Links, is_intact
from holdfast.model.store_rows import Finding, Lease, Record, RunRow

RESTORE: Final = "restore from a copy or an export; what is named here is not to be trusted"
AGAIN: Final = "what it said is lost; if it was an answer, give it again"
_RECORD: Final = Struct("<qII")
_RUN: Final = Struct("<dq?IIII")
_META: Final = Struct("<qI")
_ODD: Final = (AttributeError, TypeError, ValueError, StructError)
"""What damage raises if it changed the type of a field."""
_ORIGIN: Final = 5
_TEXTS: Final = frozenset({0, 1, 3, _ORIGIN, 10, 15})
"""The text columns of a run's row."""
_WARNED_MAX: Final = 1_000
_warned: set[str] = set()


def record_crc(space: str, key: str, revision: int, body: bytes) -> int:
    """The checksum of a record."""
    texts = _text(space), _text(key)
    return crc32(body, crc32(_RECORD.pack(revision, *map(len, texts)) + b"".join(texts)))


def run_crc(row: RunRow) -> int:
    """The checksum of what never changes of a run, and of its body."""
    texts = _text(row.run), _text(row.birth), _text(row.origin or ""), _text(row.agent)
    place = _RUN.pack(row.created_at, row.origin_seq, row.origin is not None, *map(len, texts))
    return crc32(row.body, crc32(place + b"".join(texts)))


def status_crc(run: str, status: str) -> int:
    """The checksum of a run's status."""
    return crc32(_text(f"{run}\0{status}"))


def meta_crc(store: str, fences: int) -> int:
    """The checksum of a store's own data: its id, and the highest fence of a deleted run."""
    return crc32(_META.pack(fences, len(_text(store))) + _text(store))


# -- texts that may be damaged -------------------------------------------------------------------------------


def as_text(value: Any) -> str:
    """Bytes of a text column that may be invalid UTF-8, as a name for the report."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else repr(value)


def as_bytes(text: str) -> bytes:
    """The reverse."""
    return text.encode("utf-8", "surrogateescape")


# -- runs ----------------------------------------------------------------------------------------------------


def judged_row(row: Sequence[Any]) -> RunRow:
    """The row of a SQL store, in the order of its columns, and what is wrong with it."""
    return judged(RunRow._make((*row[:9], Lease(*row[9:15]), *row[15:17], "")), row[17], row[18])


def raw_run_row(row: Any) -> RunRow:
    """A row that was read with its texts as bytes."""
    texts = [as_text(value) if number in _TEXTS else value for number, value in enumerate(row)]
    texts[_ORIGIN] = None if row[_ORIGIN] is None else texts[_ORIGIN]
    return judged_row(texts)


def judged(row: RunRow, crc: int | None, of_status: int | None) -> RunRow:
    """The row, and what is wrong with it; of a damaged one, only the sort key is as it was read."""
    if crc is not None and not _agrees(lambda: run_crc(row), crc):
        return _presentable(row, f"the row of run {_shown(row.run)} fails its checksum")
    if of_status is not None and not _agrees(lambda: status_crc(row.run, row.status), of_status):
        return _presentable(row, f"the status of run {_shown(row.run)} fails its checksum")
    if not _is_shaped(row):  # a row of format 1 has no checksum, but wrong types are damage too
        return _presentable(row, f"the row of run {_shown(row.run)} holds what no row does")
    return row


def sound(row: RunRow, store: str) -> RunRow:
    """The row, if it is intact. Raises Corrupt."""
    if row.damage:
        raise Corrupt(store=store, problem=row.damage)
    return row


def undamaged(rows: list[RunRow], store: str) -> list[RunRow]:
    """The intact ones; the others are named in the log."""
    for row in rows:
        if row.damage:
            warn(f"{row.damage} in {store}; it is left alone: `holdfast doctor` tells more")
    return [row for row in rows if not row.damage]


def adopted(row: RunRow, other: RunRow) -> RunRow:
    """The row of a run that takes over another one's events and origin."""
    return row._replace(origin=other.origin, origin_seq=other.origin_seq)


# -- records -------------------------------------------------------------------------------------------------


def judged_record(record: Record, crc: int | None) -> Record:
    """The record, and what is wrong with it."""
    if crc is not None and not _agrees(lambda: record_crc(*record[:4]), crc):
        return record._replace(
            damage=f"record {_shown(record.key)} of {_shown(record.space)} fails its checksum"
        )
    return record


def sound_record(record: Record, crc: int | None, store: str) -> Record:
    """The record, if it is intact. Raises Corrupt."""
    found = judged_record(record, crc)
    if found.damage:
        raise Corrupt(store=store, problem=found.damage)
    return record


Page = Callable[[str, int], list[Record]]
"""So many checked records after a key, in order; fewer means the last page."""


def scanned(read: Page, after: str, limit: int, store: str, *, damaged: bool) -> list[Record]:
    """A full page even if there are damaged records in between: they are skipped and named in the log."""
    found: list[Record] = []
    while True:
        asked = limit - len(found)
        page = read(after, asked)
        for record in page:
            if record.damage:
                warn(f"{record.damage} in {store}; it is not used: `holdfast doctor` tells more")
            if damaged or not record.damage:
                found.append(record)
        if len(page) < asked or len(found) == limit:
            return found
        after = page[-1].key


# -- events --------------------------------------------------------------------------------------------------


def links_of(place: Any, chain_at: Callable[[str, int], Any]) -> Links:
    """What a run's first own event is chained to; of a fork, that lies in another journal.

    ``place`` is the run's birth, origin and ``origin_seq``. ``chain_at(origin, seq)`` gives the origin's own
    origin, its ``origin_seq`` and the chain of its event ``seq``. Either is None where there is no such run.
    """
    if place is None:
        return Links()
    birth, origin, seq = place
    before: int | None = 0
    while seq and origin is not None:
        found = chain_at(origin, seq)
        if found is None:
            return Links(None, birth)
        origin, first, before = found
        if seq > first:
            break
    return Links(before, birth)


def event_damage(run: str, event: Event, links: Links) -> str:
    """What is wrong with the next event of a run's journal; empty if nothing is."""
    if not is_intact(run, event):
        links.before = None
        return f"event {event.seq} of run {run} fails its checksum"
    return "" if links.fits(event) else f"event {event.seq} of run {run} does not follow the one before it"


# -- the store -----------------------------------------------------------------------------------------------


def sound_fences(fences: int, id_: str, crc: int | None, url: str) -> int:
    """The highest fence of a deleted run, if it is intact. Raises Corrupt."""
    if crc is not None and not _agrees(lambda: meta_crc(id_, fences), crc):
        raise Corrupt(store=url, problem="what the store knows of itself fails its checksum")
    return fences


def late_fence(run: str, fence: int, last: int) -> str:
    """What is wrong if a run's last event has a higher fence than the run."""
    return f"run {run} is at fence {fence}, and its last event was written under {last}"


def findings(
    subject: str, damage: Iterable[str], sound_text: str, advice: str = RESTORE
) -> Iterator[Finding]:
    """One finding per damaged row, or one that says that there is none."""
    found = False
    for text in damage:
        found = True
        yield Finding(subject, "failure", text, advice)
    if not found:
        yield Finding(subject, "ok", sound_text)


# -- helpers -------------------------------------------------------------------------------------------------


def _agrees(made: Callable[[], int], crc: int) -> bool:
    try:
        return made() == crc
    except _ODD:
        return False


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "run": (str,),
    "birth": (str,),
    "created_at": (float, int),
    "status": (str,),
    "body": (bytes,),
    "origin": (str, type(None)),
    "origin_seq": (int,),
    "head": (int,),
    "revision": (int,),
    "lease": (Lease,),
    "agent": (str,),
    "due_at": (float, int, type(None)),
}


def _is_shaped(row: RunRow) -> bool:
    return all(isinstance(getattr(row, name), types) for name, types in _TYPES.items())


_BLANK: Final = RunRow("", "", 0.0, "", b"")


def _presentable(row: RunRow, damage: str) -> RunRow:
    """A damaged row that can be listed: fields of a wrong type are blank."""
    odd = {
        name: getattr(_BLANK, name)
        for name, types in _TYPES.items()
        if not isinstance(getattr(row, name), types)
    }
    if "created_at" in odd:  # in SQLite's sort order: NULL before numbers, texts and blobs after them
        odd["created_at"] = float("-inf") if row.created_at is None else float("inf")
    return row._replace(**odd, damage=damage)


def _shown(name: Any) -> str:
    return ascii(name) if not isinstance(name, str) or not name.isprintable() else name


def warn(text: str) -> None:
    """Log once per process: a waiter would repeat it."""
    if text in _warned:
        return
    if len(_warned) >= _WARNED_MAX:
        _warned.clear()
    _warned.add(text)
    from logging import getLogger  # imported with the first message, since it doubles the import time

    getLogger("holdfast").warning(text)
