"""Plain appends as the server reads them.

A prepared statement's name, and values in PostgreSQL's binary form.

It knows the two statements of the hot path and the types of their values; psycopg's adaptation would cost
more than the rest of an append. The invariant: ``read_events`` returns exactly what is sent here.
"""

from collections.abc import Sequence
from struct import Struct, pack
from typing import Final, NamedTuple

from holdfast.model.events import Event
from holdfast.model.store_rows import Append
from holdfast.stores.postgres import statements as sql
from holdfast.stores.postgres.wire.nul_escape import escaped

_BIGINT, _DOUBLE, _TEXT, _BYTEA = 20, 701, 25, 17
_BIGINTS, _DOUBLES, _TEXTS, _BYTEAS = 1016, 1022, 1009, 1001
_bigint: Final = Struct("!q").pack
_double: Final = Struct("!d").pack
_array: Final = Struct("!iiIii").pack
_length: Final = Struct("!i").pack
_COMMIT: Final = {True: b"on", False: b"off"}


class Prepared(NamedTuple):
    """A statement that is prepared by name on every connection of our own."""

    name: bytes
    text: bytes
    types: tuple[int, ...]


class Request(NamedTuple):
    """One statement to send. ``items`` are what it appends."""

    name: bytes
    values: list[bytes]
    items: tuple[Append, ...]


ONE: Final = Prepared(
    b"holdfast_append_event",
    sql.APPEND_EVENT.encode(),
    (_TEXT, _BIGINT, _BIGINT, _DOUBLE, _TEXT, _TEXT, _TEXT, _BIGINT, _BYTEA, _BIGINT, _BIGINT, _TEXT),
)
MANY: Final = Prepared(
    b"holdfast_append_many",
    sql.APPEND_MANY.encode(),
    (
        _TEXTS, _BIGINTS, _BIGINTS, _DOUBLES, _TEXTS, _TEXTS, _TEXTS, _BIGINTS, _BYTEAS, _BIGINTS, _BIGINTS,
        _TEXT,
    ),
)  # fmt: skip


def is_plain(item: Append) -> bool:
    """One event right after the head, and nothing else."""
    return (
        len(item.events) == 1
        and item.events[0].seq == item.after_seq + 1
        and item.status is None
        and not item.blobs
        and not item.consumed
    )


def request_of(items: Sequence[Append], *, synced: bool) -> Request:
    """The one statement that appends these plain items, of different runs."""
    if len(items) > 1:
        return Request(MANY.name, _many(items, synced=synced), tuple(items))
    (item,) = items
    seq, at, kind, name, key, fence, body, crc, chain = item.events[0]
    values = [
        item.run.encode(), _bigint(item.fence), _bigint(seq), _double(at), kind.encode(),
        escaped(name).encode(), escaped(key).encode(), _bigint(fence), body, _bigint(crc), _bigint(chain),
        _COMMIT[synced],
    ]  # fmt: skip
    return Request(ONE.name, values, tuple(items))


def columns_of(items: Sequence[Append], *, synced: bool) -> list[object]:
    """The same values for psycopg to adapt."""
    events = [item.events[0] for item in items]
    return [
        [item.run for item in items],
        [item.fence for item in items],
        *_columns(events),
        _COMMIT[synced].decode(),
    ]


def _many(items: Sequence[Append], *, synced: bool) -> list[bytes]:
    seqs, ats, kinds, names, keys, fences, bodies, crcs, chains = _columns([item.events[0] for item in items])
    return [
        _texts([item.run for item in items]), _bigints([item.fence for item in items]), _bigints(seqs),
        _doubles(ats), _texts(kinds), _texts(names), _texts(keys), _bigints(fences),
        _elements(_BYTEA, bodies), _bigints(crcs), _bigints(chains), _COMMIT[synced],
    ]  # fmt: skip


def _columns(events: Sequence[Event]) -> tuple[list, ...]:  # type: ignore[type-arg]  # one list a column, each of its own type
    return (
        [e.seq for e in events], [e.at for e in events], [e.kind for e in events],
        [escaped(e.name) for e in events], [escaped(e.key) for e in events], [e.fence for e in events],
        [e.body for e in events], [e.crc for e in events], [e.chain for e in events],
    )  # fmt: skip


def _texts(texts: Sequence[str]) -> bytes:
    return _elements(_TEXT, [text.encode() for text in texts])


def _elements(type_: int, elements: Sequence[bytes]) -> bytes:
    parts = [_array(1, 0, type_, len(elements), 1)]
    for element in elements:
        parts += (_length(len(element)), element)
    return b"".join(parts)


def _bigints(numbers: Sequence[int]) -> bytes:
    count = len(numbers)
    lengths = [8] * count
    return _array(1, 0, _BIGINT, count, 1) + pack(f"!{'iq' * count}", *_woven(lengths, numbers))


def _doubles(numbers: Sequence[float]) -> bytes:
    count = len(numbers)
    return _array(1, 0, _DOUBLE, count, 1) + pack(f"!{'id' * count}", *_woven([8] * count, numbers))


def _woven(lengths: Sequence[int], numbers: Sequence[float]) -> list[float]:
    woven = [0.0] * (2 * len(numbers))
    woven[::2], woven[1::2] = lengths, numbers
    return woven
