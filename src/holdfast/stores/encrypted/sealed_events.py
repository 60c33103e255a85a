"""Seals the events of a run, and opens them.

The stored event has the place of the plain one, a hidden key, a sealed body, and a checksum and a chain of
its own: a store and its doctor check them without a key. Inside are the plain key, checksum and chain, so
that an event comes back as it was appended, bit for bit. The first line of a stored body is in clear: the
start of the range that the event replaces, else nothing.

The invariant: what was not sealed here, for this place in this run, comes back as an event that fails its
checksum, without its content.
"""

from collections.abc import Iterable, Sequence
from os import urandom
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final

from holdfast.model.events import (
    COVERING,
    Event,
    checksum,
    covers_from,
    event_of,
    first_link,
    is_intact,
    link,
)
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.encrypted.keys import LineageKey
from holdfast.stores.encrypted.seal import NONCE_BYTES, SEALED, NotGenuineError, text_bytes

_PLACE: Final = Struct("<cqdqII")
"""What an event is, and its place, as associated data: the lengths keep the texts behind it apart."""
_INSIDE: Final = Struct("<qIH")
_PLAIN_HEAD: Final = b"{}\n"
_SEALED_HEAD: Final = _PLAIN_HEAD + SEALED
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


def seal_events(owner: Owner, events: Sequence[Event], before: int) -> list[Event]:
    """The events as they are stored behind one with the stored chain ``before``."""
    # One loop without calls of our own, and one call for all nonces: every step comes here with two events.
    run, birth, key, _ = owner
    encrypt, hide, chained_to = key.cipher.encrypt, key.hide, before
    count = len(birth)
    nonces = urandom(NONCE_BYTES * len(events))
    made: list[Event] = []
    for number, event in enumerate(events):
        seq, at, kind, name, key_text, fence, body, crc, chain = event
        head = _SEALED_HEAD if kind not in COVERING else _head(event) + SEALED
        text = key_text.encode("utf-8", "surrogatepass")
        texts = f"{birth}{kind}{name}".encode("utf-8", "surrogatepass")
        place = _PLACE.pack(b"e", seq, at, fence, count, len(kind)) + texts + head
        nonce = nonces[number * NONCE_BYTES : (number + 1) * NONCE_BYTES]
        sealed = head + nonce + encrypt(nonce, _INSIDE.pack(chain, crc, len(text)) + text + body, place)
        hidden = hide(key_text)
        stored_crc = checksum(run, seq, at, kind, name, hidden, fence, sealed)
        if chain:
            link_ = link(abs(chained_to) or first_link(birth), stored_crc)
            chained_to = link_ if chain > 0 else -link_
        else:
            chained_to = 0
        made.append(event_of((seq, at, kind, name, hidden, fence, sealed, stored_crc, chained_to)))
    return made


def open_event(owner: Owner, event: Event) -> Event:
    """The event as it was appended. Raises NotGenuineError."""
    try:
        seq, at, kind, name, hidden, fence, body, _, _ = event
        start = body.index(_CUT) + 1 + len(SEALED)
        head = body[:start]
        if not head.endswith(SEALED) or not is_intact(owner.run, event):
            raise NotGenuineError
        texts = f"{owner.birth}{kind}{name}".encode("utf-8", "surrogatepass")
        place = _PLACE.pack(b"e", seq, at, fence, len(owner.birth), len(kind)) + texts + head
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
