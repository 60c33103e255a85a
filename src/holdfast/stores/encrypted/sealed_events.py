"""Seals the events of a run, and opens them.

The stored event has the place of the plain one, a hidden key, a sealed body, and a checksum and a chain of its
own: a store and its doctor check them without a key. Inside are the plain key, checksum and chain, so that an
event comes back as it was appended, bit for bit. The first line of a stored body is in clear: the start of the
range that the event replaces, else nothing.

The invariant: what was not sealed here, for this place in this run, comes back as an event that fails its
checksum, without its content.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from holdfast.model.events import (
    COVERING,
    Event,
    checksum,
    covers_from,
    event_of,
    is_intact,
    link,
    link_behind,
)
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.encrypted.keys import LineageKey
from holdfast.stores.encrypted.seal import NONCE_BYTES, SEALED, NotGenuineError, text_bytes

_PLACE: Final = Struct("<cqdqII")
_INSIDE: Final = Struct("<qIH")
_PLAIN_HEAD: Final = b"{}\n"
_CUT: Final = b"\n"
_NO_CRC: Final = -1
_ODD: Final = (AttributeError, TypeError, ValueError, StructError)
"""What damage raises if it changed the type of a column."""


class Owner(NamedTuple):
    """The run that events belong to: its name, its birth id, its lineage's key, and its last known fence."""

    run: str
    birth: str
    key: LineageKey
    fence: int


def seal_event(owner: Owner, event: Event, chain: int | None, before: int) -> Event:
    """The event as it is stored behind one with the stored chain ``before``.

    ``chain`` is its stored chain if that is known: that of the event it replaces.
    """
    seq, at, kind, name, key, fence, body, crc, plain_chain = event
    head = _head(event)
    text = text_bytes(key)
    place = _place(owner.birth, seq, at, kind, name, fence) + head
    inside = _INSIDE.pack(plain_chain, crc, len(text)) + text + body
    sealed = head + SEALED + owner.key.cipher.seal(inside, place)
    hidden = owner.key.hide(key)
    crc = checksum(owner.run, seq, at, kind, name, hidden, fence, sealed)
    if not plain_chain:
        chain = 0
    elif chain is None:
        chain = link(link_behind(before, owner.birth), crc)
        chain = chain if plain_chain > 0 else -chain
    return event_of((seq, at, kind, name, hidden, fence, sealed, crc, chain))


def open_event(owner: Owner, event: Event) -> Event:
    """The event as it was appended. Raises NotGenuineError."""
    try:
        seq, at, kind, name, hidden, fence, body, _, _ = event
        cut = body.index(_CUT) + 1
        start = cut + len(SEALED)
        if body[cut:start] != SEALED or not is_intact(owner.run, event):
            raise NotGenuineError
        place = _place(owner.birth, seq, at, kind, name, fence) + body[:cut]
        inside = owner.key.cipher.open(body[start:], place)
        chain, crc, length = _INSIDE.unpack_from(inside)
        end = _INSIDE.size + length
        key = inside[_INSIDE.size : end].decode("utf-8", "surrogatepass")
    except _ODD as error:
        raise NotGenuineError from error
    if owner.key.hide(key) != hidden:
        raise NotGenuineError
    return event_of((seq, at, kind, name, key, fence, inside[end:], crc, chain))


def opened(owner: Owner | None, events: Iterable[Event]) -> tuple[list[Event], bool]:
    """The events as they were appended, damaged ones in their places; and whether all are genuine."""
    found: list[Event] = []
    all_genuine = True
    for event in events:
        try:
            if owner is None:
                raise NotGenuineError
            found.append(open_event(owner, event))
        except NotGenuineError:
            all_genuine = False
            found.append(event._replace(key="", body=b"", crc=_NO_CRC))
    return found, all_genuine


def is_genuine(event: Event) -> bool:
    """Whether an event that ``opened`` returned could be opened."""
    return event.crc != _NO_CRC


def overhead_of(event: Event) -> int:
    """By how many bytes the stored body is larger than the plain one."""
    inside = _INSIDE.size + len(text_bytes(event.key))
    return len(_head(event)) + len(SEALED) + NONCE_BYTES + 16 + inside


def _head(event: Event) -> bytes:
    if event.kind not in COVERING:
        return _PLAIN_HEAD
    return b'{"from_seq":%d}\n' % covers_from(event)


def _place(birth: str, seq: int, at: float, kind: str, name: str, fence: int) -> bytes:
    """What an event is and where it stands, as associated data. The lengths keep the texts apart."""
    texts = f"{birth}{kind}{name}".encode("utf-8", "surrogatepass")
    return _PLACE.pack(b"e", seq, at, fence, len(birth), len(kind)) + texts
