"""Items of an append as requests to the server: which statement, and its values in PostgreSQL's binary form.

psycopg's adaptation would cost more than the rest of an append. The invariant: ``read_events`` returns
exactly what is sent here.
"""

from collections.abc import Collection, Sequence
from struct import Struct, pack
from typing import Final

from holdfast import limits
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import Append, Blob, inbox_space
from holdfast.stores.postgres.wire import append_statements as sql
from holdfast.stores.postgres.wire.append_statements import BIGINT, BYTEA, DOUBLE, TEXT, Statement
from holdfast.stores.postgres.wire.nul_escape import escaped
from holdfast.stores.row_checksums import status_crc

_new = tuple.__new__
_bigint: Final = Struct("!q").pack
_double: Final = Struct("!d").pack
_array: Final = Struct("!iiIii").pack
_length: Final = Struct("!i").pack


class Request(NamedTuple):
    """One statement to send, and how many runs it appends to."""

    statement: Statement
    values: Sequence[bytes | None]
    runs: int = 0


def is_plain(item: Append) -> bool:
    """Whether the item is events and nothing else."""
    return bool(item.events) and item.status is None and not item.blobs and not item.consumed


def request_of(items: Sequence[Append], *, synced: bool) -> Request | None:
    """The one statement that appends these items; None if it takes several."""
    if len(items) == 1:
        return one_item(items[0], synced=synced)
    joined = joined_by_run(items)
    return None if joined is None else many_runs(joined, synced=synced)


def joined_by_run(items: Sequence[Append]) -> list[Append] | None:
    """One item for each run, if all are plain, and those of a run follow each other."""
    by_run: dict[str, Append] = {}
    for item in items:
        if not is_plain(item):
            return None
        before = by_run.setdefault(item.run, item)
        if before is not item:
            if before.events[-1].seq != item.after_seq or before.fence != item.fence:
                return None
            by_run[item.run] = before._replace(events=before.events + item.events)
    return list(by_run.values())


def one_item(item: Append, *, synced: bool) -> Request:
    """The statement that appends this item."""
    if not is_plain(item):
        return _with_all(item, synced=synced)
    few = few_events(item, synced=synced, is_checked=True)
    return many_runs([item], synced=synced) if few is None else few


def few_events(item: Append, *, synced: bool = True, is_checked: bool = False) -> Request | None:
    """The statement for a few events in order; None for other items, and for those that are large.

    A step appends two events, so what depends on nothing is made once, and calls are left out. Their seqs and
    their fence are the item's: they are not sent again. ``is_checked``: the size was.
    """
    run, fence, seq, events, blobs, consumed, status, _, _ = item
    count = len(events)
    if blobs or consumed or status is not None or not 0 < count <= sql.ROWS_MAX:
        return None
    values: list[bytes | None] = [run.encode(), _bigint(fence), _bigint(seq)]
    size = 0
    for at_seq, at, kind, name, key, of, body, crc, link in events:
        seq += 1
        if at_seq != seq or of != fence:
            return None
        size += len(body)
        if not (name.isprintable() and key.isprintable()):
            name, key = escaped(name), escaped(key)  # noqa: PLW2901 - a text with a NUL, which is hardly one
        values += (
            _double(at), _kinds.get(kind) or _kind(kind), name.encode(), key.encode(), body, _bigint(crc),
            _bigint(link),
        )  # fmt: skip
    if size > limits.APPEND_SIZE_BYTES_MAX and not is_checked:
        return None  # the caller refuses it, unless sealing has made it that large
    return _new(Request, (sql.append_rows(count, synced=synced), values, 1))


_kinds: Final[dict[str, bytes]] = {}


def _kind(kind: str) -> bytes:
    return _kinds.setdefault(kind, kind.encode())


def many_runs(items: Sequence[Append], *, synced: bool) -> Request:
    """The statement that appends these plain items, each of another run."""
    events = [event for item in items for event in item.events]
    values = [
        _texts([item.run for item in items]),
        _bigints([item.fence for item in items]),
        _bigints([item.after_seq for item in items]),
        _bigints([item.events[-1].seq for item in items]),
        _texts([item.run for item in items for _ in item.events]),
        *_columns(events),
    ]
    return Request(sql.append_many(synced=synced), values, len(items))


def lock_runs(runs: Collection[str]) -> Request:
    """Lock the rows of these runs in the common order."""
    return Request(sql.LOCK_RUNS, [_texts(sorted(runs))])


def plain_text(text: bytes) -> Request:
    """A statement without values, such as COMMIT."""
    return Request(Statement(b"", text), ())


def referred(blobs: Sequence[Blob]) -> list[str]:
    """The addresses that must already exist, each once, in order."""
    found = brought(blobs)
    return list(dict.fromkeys(address for address, data in blobs if data is None and address not in found))


def brought(blobs: Sequence[Blob]) -> dict[str, bytes]:
    """The contents by address, in the order in which rows are locked."""
    return dict(sorted((address, data) for address, data in blobs if data is not None))


def _with_all(item: Append, *, synced: bool) -> Request:
    contents = brought(item.blobs)
    status = item.status
    values = [
        item.run.encode(), _bigint(item.fence), _bigint(item.after_seq), _bigint(item.upto_seq),
        *_columns(item.events),
        None if status is None else status.encode(),
        None if status is None else _bigint(status_crc(item.run, status)),
        _texts(referred(item.blobs)), _texts(list(contents)), _elements(BYTEA, list(contents.values())),
        _double(item.events[0].at if item.events else 0.0),
        inbox_space(item.run).encode(), _texts(item.consumed),
    ]  # fmt: skip
    return Request(sql.append_item(synced=synced), values, 1)


def _columns(events: Sequence[Event]) -> tuple[bytes, ...]:
    """The events, a column at a time."""
    if not events:
        return _NO_EVENTS
    seqs, ats, kinds, names, keys, fences, bodies, crcs, links = zip(*events, strict=True)
    return (
        _bigints(seqs), _doubles(ats), _texts(kinds), _texts([*map(escaped, names)]),
        _texts([*map(escaped, keys)]), _bigints(fences), _elements(BYTEA, bodies), _bigints(crcs),
        _bigints(links),
    )  # fmt: skip


def _texts(texts: Sequence[str]) -> bytes:
    return _elements(TEXT, [text.encode() for text in texts])


def _elements(type_: int, elements: Sequence[bytes]) -> bytes:
    if not elements:
        return _array(0, 0, type_, 0, 1)[:12]  # no dimension: how the server itself writes an empty array
    parts = [_array(1, 0, type_, len(elements), 1)]
    for element in elements:
        parts += (_length(len(element)), element)
    return b"".join(parts)


def _bigints(numbers: Sequence[int]) -> bytes:
    count = len(numbers)
    return _array(1, 0, BIGINT, count, 1) + pack(f"!{'iq' * count}", *_woven(numbers))


def _doubles(numbers: Sequence[float]) -> bytes:
    count = len(numbers)
    return _array(1, 0, DOUBLE, count, 1) + pack(f"!{'id' * count}", *_woven(numbers))


def _woven(numbers: Sequence[float]) -> list[float]:
    """Each number behind its length."""
    woven: list[float] = [8] * (2 * len(numbers))
    woven[1::2] = numbers
    return woven


_NO_EVENTS: Final = tuple(
    _elements(type_, ()) for type_ in (BIGINT, DOUBLE, TEXT, TEXT, TEXT, BIGINT, BYTEA, BIGINT, BIGINT)
)
