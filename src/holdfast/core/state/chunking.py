"""Where a long list or text is cut: at places that its own content chooses.

It knows hashes and sizes and refuses to know where anything is stored: equal content is cut equally, so that an
edit moves no boundary but those beside it. A boundary is a matter of chance that the item itself decides, in
proportion to its length; bounds on both sides keep a run of equal items from being cut everywhere, or nowhere.
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
"""Three hashes, or as many small values as are as long: the end of a list is written anew with each append, and
runs of nearly one length leave less there than runs of any length would."""
_RUN_BYTES_MAX: Final = 4 * _RUN_BYTES_MIN
_RUN_ITEMS_MIN: Final = 2
"""Each level is then at most half as long as the one below, however long its items, and there is a top."""
_CHANCE: Final = 2**32 // _RUN_BYTES_MIN
_LOOK_BYTES: Final = 64
_FAR: Final = 100


def runs(items: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """The items in order, as runs that end where an item says so: of about six hashes."""
    began = weight = 0
    for index, item in enumerate(items, 1):
        length = len(item)
        weight += length
        if weight < _RUN_BYTES_MIN or index - began < _RUN_ITEMS_MIN:
            continue
        # crc32 because nothing but the cost depends on its being hard to foresee
        if crc32(item) < length * _CHANCE or weight >= _RUN_BYTES_MAX:
            yield items[began:index]
            began, weight = index, 0
    if began < len(items):
        yield items[began:]


def pieces(text: str) -> Iterator[str]:
    """The text in order, in pieces within the limits' bounds (a little longer where a character straddles one)."""
    data = text.encode()
    began, size = 0, len(data)
    while size - began > STATE_PIECE_BYTES_MAX:
        upto = began + STATE_PIECE_BYTES_MAX
        found = _PLACE.search(data, began + STATE_PIECE_BYTES_MIN, upto)
        end = upto if found is None else found.end()
        while end < size and data[end] & 0xC0 == 0x80:  # never inside a character
            end += 1
        yield data[began:end].decode()
        began = end
    if began < size:
        yield data[began:].decode()


def chunks(data: bytes) -> Iterator[bytes]:
    """The bytes of a file in order, in pieces within the limits' bounds; none of an empty one."""
    began, size = 0, len(data)
    while size - began > ARTIFACT_PIECE_BYTES_MAX:
        upto = began + ARTIFACT_PIECE_BYTES_MAX
        places = (found.end() for found in _PLACE.finditer(data, began + ARTIFACT_PIECE_BYTES_MIN, upto))
        # One place in a hundred, chosen by what stands before it: a longer pattern would never match a narrow alphabet.
        end = next((end for end in places if crc32(data[end - _LOOK_BYTES : end]) % _FAR == 0), upto)
        yield data[began:end]
        began = end
    if began < size:
        yield data[began:]


def _place(length: int) -> re.Pattern[bytes]:
    """A pattern that one place in ``2**length`` matches: each byte in one half, drawn anew, of all bytes.

    A rolling hash would need a step of Python for each byte; this runs inside ``re``, and works for prose in any
    script as for hexadecimal digits, because some of any alphabet falls into each half.
    """
    halves = []
    for position in range(length):
        bits = sha256(b"holdfast place %d" % position).digest()
        members = b"".join(re.escape(bytes([byte])) for byte in range(256) if bits[byte // 8] >> byte % 8 & 1)
        halves.append(b"[" + members + b"]")
    return re.compile(b"".join(halves), re.DOTALL)


_PLACE: Final = _place(9)
