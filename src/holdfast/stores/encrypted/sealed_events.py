"""Seals the events of a run, and opens them.

The stored event has the place of the plain one, a hidden key, a sealed body, and a checksum and a chain of
its own: a store and its doctor check them without a key. Inside are the plain key, checksum and chain, so
that an event comes back as it was appended, bit for bit. The first line of a stored body is in clear: the
start of the range that the event replaces, else nothing.

A run seals its events by a key of its own, which its birth id is part of. So the associated data is no more
than what the stored checksum covers before the body, and is made once for both. For an event that replaces
others it has the first line as well.

The invariant: what was not sealed here, for this place in this run, comes back as an event that fails its
checksum, without its content.
"""

from collections.abc import Iterable, Sequence
from os import urandom
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Final
from zlib import crc32

from holdfast.model.events import COVERING, LINK, PLACE, Event, covers_from, event_of, link, link_behind
from holdfast.stores.encrypted.keys import HIDDEN_DIGITS, LineageKey
from holdfast.stores.encrypted.seal import NONCE_BYTES, SEALED, TAG_BYTES, Cipher, NotGenuineError, text_bytes

_INSIDE: Final = Struct("<qIII")
"""The plain chain and checksum, and how long the key and the kind are: so texts cannot lend to each other."""
_PLAIN_HEAD: Final = b"{}\n"
_SEALED_HEAD: Final = _PLAIN_HEAD + SEALED
_CUT: Final = b"\n"
_NO_CRC: Final = -1
_ODD: Final = (AttributeError, TypeError, ValueError, StructError)
"""What damage raises if it changed the type of a column."""

_new = tuple.__new__
_pack_place, _pack_inside, _pack_link = PLACE.pack, _INSIDE.pack, LINK.pack


class Owner:
    """The run that events belong to: its name, its birth id, its lineage's key, and its last known fence."""

    __slots__ = ("_cipher", "birth", "end", "fence", "key", "run")

    def __init__(self, run: str, birth: str, key: LineageKey, fence: int) -> None:
        self.run, self.birth, self.key, self.fence = run, birth, key, fence
        self._cipher: Cipher | None = None
        self.end: tuple[int, int] | None = None
        """The seq and the stored chain of the last event sealed for it, also if it is not written yet.

        A failed or refused append forgets the owner, and with it a chain that may never have been written.
        """

    @property
    def cipher(self) -> Cipher:
        """What seals its events, and nothing else."""
        if self._cipher is None:
            self._cipher = self.key.of_run(self.birth)
        return self._cipher


def seal_events(owner: Owner, events: Sequence[Event], before: int) -> tuple[Event, ...]:
    """The events as they are stored behind one with the stored chain ``before``."""
    # Every step comes here with two events under one key, so the calls of ``checksum``, ``link`` and
    # ``LineageKey.hide`` are written out, and one draws all nonces. None is drawn ahead: a copy of the
    # process, or of the machine that it runs on, would use it again.
    run, encrypt, event_keys = owner.run, owner.cipher.encrypt, owner.key.event_keys
    nonces, end = urandom(NONCE_BYTES * len(events)), 0
    known, text, hidden = "", b"", ""
    made: list[Event] = []
    for event in events:
        seq, at, kind, name, key, fence, body, crc, chain = event
        if key != known:
            known, text = key, key.encode("utf-8", "surrogatepass")
            keyed = event_keys.copy()
            keyed.update(text)
            hidden = keyed.hexdigest() if key else ""
        texts = f"{run}\0{kind}\0{name}\0{hidden}".encode("utf-8", "surrogatepass")
        bound = place = _pack_place(seq, at, fence) + texts
        head = _SEALED_HEAD
        if kind in COVERING:
            head = _head(event) + SEALED
            bound = place + head
        nonce = nonces[end : (end := end + NONCE_BYTES)]
        inside = _pack_inside(chain, crc, len(text), len(kind)) + text + body
        sealed = head + nonce + encrypt(nonce, inside, bound)
        stored_crc = crc32(sealed, crc32(place))
        if chain > 0 and before > 0:
            before = crc32(_pack_link(before, stored_crc)) or 1
        else:
            before = _sealed_chain(owner, chain, before, stored_crc)
        made.append(_new(Event, (seq, at, kind, name, hidden, fence, sealed, stored_crc, before)))
    return tuple(made)


def _sealed_chain(owner: Owner, chain: int, before: int, crc: int) -> int:
    """The stored chain of an event with this plain one: none, an anchor, or the usual one behind either."""
    if not chain:
        return 0
    made = link(link_behind(before, owner.birth), crc)
    return made if chain > 0 else -made


def open_event(owner: Owner, event: Event) -> Event:
    """The event as it was appended. Raises NotGenuineError."""
    try:
        seq, at, kind, name, hidden, fence, body, stored_crc, _ = event
        texts = f"{owner.run}\0{kind}\0{name}\0{hidden}".encode("utf-8", "surrogatepass")
        place = _pack_place(seq, at, fence) + texts
        start = body.index(_CUT) + 1 + len(SEALED)
        head = body[:start]
        is_sealed = head.endswith(SEALED) if kind in COVERING else head == _SEALED_HEAD
        if not is_sealed or crc32(body, crc32(place)) != stored_crc:
            raise NotGenuineError
        bound = place + head if kind in COVERING else place
        inside = owner.cipher.open(body[start:], bound)
        chain, crc, key_bytes, kind_chars = _INSIDE.unpack_from(inside)
        end = _INSIDE.size + key_bytes
        key = inside[_INSIDE.size : end].decode("utf-8", "surrogatepass")
        if len(kind) != kind_chars or len(hidden) != (HIDDEN_DIGITS if key_bytes else 0):
            raise NotGenuineError
    except _ODD as error:
        raise NotGenuineError from error
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
    return len(_head(event)) + len(SEALED) + NONCE_BYTES + TAG_BYTES + inside


def _head(event: Event) -> bytes:
    if event.kind not in COVERING:
        return _PLAIN_HEAD
    return b'{"from_seq":%d}\n' % covers_from(event)
