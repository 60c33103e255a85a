"""Content by its address: hashed, compressed, and checked when it comes back.

It knows SHA-256 and zstd. It refuses to know what the content says and where it lives. The invariant: ``unpack``
returns the very bytes that the address was made of, or raises.

A packed blob is a zstd frame, told by its magic number, or the content itself where that is not larger: so a blob
taken out of a store can be read with ``zstd -d``, and a small one in the sqlite3 shell.
"""

import threading
from hashlib import sha256
from typing import Any, Final

from holdfast.errors import Corrupt, TooLarge
from holdfast.limits import BLOB_SIZE_BYTES_MAX

_LEVEL: Final = 3
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_TINY_BYTES: Final = 64
"""Less than this gains nothing from being compressed."""


class _Tools(threading.local):
    """A compressor and a decompressor for each thread: they are costly to make and not thread-safe."""

    def __init__(self) -> None:
        import zstandard

        self.compressor: Any = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor: Any = zstandard.ZstdDecompressor()


_tools: _Tools | None = None


def address_of(data: bytes) -> str:
    """The address of a content: its SHA-256, in hexadecimal."""
    return sha256(data).hexdigest()


def pack(data: bytes) -> bytes:
    """The content as it is kept. Raises TooLarge."""
    if len(data) > BLOB_SIZE_BYTES_MAX:
        raise TooLarge(what="a blob", size=len(data), size_max=BLOB_SIZE_BYTES_MAX, unit="bytes")
    looks_packed = data.startswith(_MAGIC)
    if len(data) < _TINY_BYTES and not looks_packed:
        return data
    try:
        packed: bytes = _of_thread().compressor.compress(data)
    except (
        OSError
    ):  # no descriptor left to import it with: what happened is recorded all the same, at its full size
        if looks_packed:
            raise
        return data
    # content that begins like a frame must be in one, however little it gains
    return packed if looks_packed or len(packed) < len(data) else data


def unpack(packed: bytes, *, address: str) -> bytes:
    """The content of a packed blob. Raises Corrupt, naming the address, unless it is what the address says."""
    data = _inflate(packed, f"blob {address}")
    if address_of(data) != address:
        raise _corrupt(f"blob {address}", "its content has another hash")
    return data


def _inflate(packed: bytes, what: str) -> bytes:
    if not packed.startswith(_MAGIC):
        return packed
    import zstandard

    try:
        size = zstandard.frame_content_size(packed)
        # the size is looked at first: a few bytes can claim to unfold to more than there is memory
        if not 0 <= size <= BLOB_SIZE_BYTES_MAX:
            raise _corrupt(what, f"its frame claims {size:,} bytes")
        data: bytes = _of_thread().decompressor.decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise _corrupt(what, f"it cannot be decompressed ({error})") from error
    return data


def _corrupt(what: str, problem: str) -> Corrupt:
    return Corrupt(store="", problem=f"{what} is damaged: {problem}")


def _of_thread() -> _Tools:
    global _tools  # noqa: PLW0603  made at first use: zstandard stays out of import time
    if _tools is None:
        _tools = _Tools()
    return _tools
