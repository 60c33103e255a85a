"""Content by address: hashed, compressed, and checked when it is read.

It knows SHA-256 and zstd. It does not know what the content means or where it is stored. The invariant:
``unpack`` returns the exact bytes that the address was made of, or raises.

A packed blob is a zstd frame, recognised by its magic number, or the content itself if that is not larger. So
you can read a blob from a store with ``zstd -d``, and a small one in the sqlite3 shell.
"""

import threading
from hashlib import sha256
from typing import Any, Final

from holdfast.errors import Corrupt, TooLarge
from holdfast.limits import BLOB_SIZE_BYTES_MAX

_LEVEL: Final = 3
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_TINY_BYTES: Final = 64
"""Smaller content gains nothing from compression."""


class _Tools(threading.local):
    """A compressor and a decompressor per thread: they are costly to make and not thread-safe."""

    def __init__(self) -> None:
        import zstandard

        self.compressor: Any = zstandard.ZstdCompressor(level=_LEVEL)
        self.decompressor: Any = zstandard.ZstdDecompressor()


_tools: _Tools | None = None


def address_of(data: bytes) -> str:
    """The address of a content: its SHA-256 in hexadecimal."""
    return sha256(data).hexdigest()


def pack(data: bytes) -> bytes:
    """The stored form of the content. Raises TooLarge."""
    if len(data) > BLOB_SIZE_BYTES_MAX:
        raise TooLarge(what="a blob", size=len(data), size_max=BLOB_SIZE_BYTES_MAX, unit="bytes")
    looks_packed = data.startswith(_MAGIC)
    if len(data) < _TINY_BYTES and not looks_packed:
        return data
    try:
        packed: bytes = _of_thread().compressor.compress(data)
    except (
        OSError
    ):  # no file descriptor left to import zstandard with: store the content uncompressed rather than lose it
        if looks_packed:
            raise
        return data
    # content that starts like a frame must be in one, even if that is larger: unpack looks at the magic
    # number
    return packed if looks_packed or len(packed) < len(data) else data


def unpack(packed: bytes, *, address: str) -> bytes:
    """The content of a packed blob. Raises Corrupt with the address if it does not match."""
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
        # check the declared size first: a few bytes can claim to unpack to more than the memory
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
