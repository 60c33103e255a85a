"""Content-defined chunking: decides where a long list, text or file is cut, from its content alone.

Equal content is cut equally, wherever it is stored, so an edit moves only the boundaries beside it. Each item
has a chance to end a chunk that grows with its length and depends on its bytes. Bounds on both sides keep a
sequence of equal items from being cut after each item, or never.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final
from zlib import crc32

from holdfast.limits import (
    ARTIFACT_PIECE_BYTES_MAX,
    ARTIFACT_PIECE_BYTES_MIN,
    STATE_PIECE_BYTES_MAX,
    STATE_PIECE_BYTES_MIN,
)

_RUN_BYTES_MIN: Final = 99
"""The length of three hashes. Each append writes the last run of a list again, so runs must be short."""
_RUN_BYTES_MAX: Final = 4 * _RUN_BYTES_MIN
_RUN_ITEMS_MIN: Final = 2
"""With two items per run, each level is at most half as long as the one below, so the tree has a top."""
_CHANCE: Final = 2**32 // _RUN_BYTES_MIN
_LOOK_BYTES: Final = 64
_FAR: Final = 100


def runs(items: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The items in order, in runs of about six hashes.

    The bytes of an item decide whether it ends its run.
    """
    began = weight = 0
    for index, item in enumerate(items, 1):
        length = len(item)
        weight += length
        if weight < _RUN_BYTES_MIN or index - began < _RUN_ITEMS_MIN:
            continue
        # crc32 is enough: an adversary who predicts the boundaries can only make storage more expensive.
        if crc32(item) < length * _CHANCE or weight >= _RUN_BYTES_MAX:
            yield items[began:index]
            began, weight = index, 0
    if began < len(items):
        yield items[began:]


def pieces(text: str) -> Iterator[str]:
    """The text in order, in pieces within the bounds.

    A piece is a little longer if a character crosses the bound.
    """
    data = text.encode()
    began, size = 0, len(data)
    while size - began > STATE_PIECE_BYTES_MAX:
        upto = began + STATE_PIECE_BYTES_MAX
        found = _PLACE.search(data, began + STATE_PIECE_BYTES_MIN, upto)
        end = upto if found is None else found.end()
        while end < size and data[end] & 0xC0 == 0x80:  # a continuation byte: never cut inside a character
            end += 1
        yield data[began:end].decode()
        began = end
    if began < size:
        yield data[began:].decode()


def chunks(data: bytes) -> Iterator[bytes]:
    """The bytes of a file in order, in pieces within the bounds; none for an empty file."""
    began, size = 0, len(data)
    while size - began > ARTIFACT_PIECE_BYTES_MAX:
        upto = began + ARTIFACT_PIECE_BYTES_MAX
        places = (found.end() for found in _PLACE.finditer(data, began + ARTIFACT_PIECE_BYTES_MIN, upto))
        # One match in a hundred, chosen by the bytes before it. A longer pattern instead would never match in
        # files that use few different bytes.
        end = next((end for end in places if crc32(data[end - _LOOK_BYTES : end]) % _FAR == 0), upto)
        yield data[began:end]
        began = end
    if began < size:
        yield data[began:]


def _place(length: int) -> re.Pattern[bytes]:
    """A pattern that one position in ``2**length`` matches: each byte is in a fixed random half of all bytes.

    A rolling hash would need a step of Python per byte; this runs inside ``re``. It works for any script and
    for hexadecimal digits, because each half has some members of any alphabet.
    """
    halves = []
    for position in range(length):
        bits = sha256(b"holdfast place %d" % position).digest()
        members = b"".join(re.escape(bytes([byte])) for byte in range(256) if bits[byte // 8] >> byte % 8 & 1)
        halves.append(b"[" + members + b"]")
    return re.compile(b"".join(halves), re.DOTALL)


_PLACE: Final = _place(9)
