"""Content by address: hashed, compressed, and checked when it is read.

It knows SHA-256 and zstd. It does not know what the content means or where it is stored. The invariant:
``unpack`` returns the exact bytes that the address was made of, or raises.

A packed blob is a zstd frame, recognised by its magic number, or the content itself if that is not larger. So
you can read a blob from a store with ``zstd -d``, and a small one in the sqlite3 shell.
"""

import sys
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
    """A compressor per thread: it is costly to make, and threads would wait for each other."""

    def __init__(self) -> None:
        self.compressor: Any = _zstd().ZstdCompressor(level=_LEVEL)


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
        compressor = _of_thread().compressor
    except OSError:  # no file descriptor left to import zstd with: stored as it is rather than lost
        if looks_packed:
            raise
        return data
    packed: bytes = compressor.compress(data, compressor.FLUSH_FRAME)
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
    zstd = _zstd()
    decompressor = zstd.ZstdDecompressor()  # it is good for one frame
    try:
        size = zstd.get_frame_info(packed).decompressed_size
        # check the declared size first: a few bytes can claim to unpack to more than the memory
        if size is None or size > BLOB_SIZE_BYTES_MAX:
            raise _corrupt(what, f"its frame claims {'no size' if size is None else f'{size:,} bytes'}")
        data: bytes = decompressor.decompress(packed)
    except zstd.ZstdError as error:
        raise _corrupt(what, f"it cannot be decompressed ({error})") from error
    if not decompressor.eof or decompressor.unused_data:
        raise _corrupt(what, "its frame is cut off, or has something behind it")
    return data


def _corrupt(what: str, problem: str) -> Corrupt:
    return Corrupt(store="", problem=f"{what} is damaged: {problem}")


def _zstd() -> Any:
    """The zstd module: Python's own from 3.14 on, before that its backport. Loaded when first used."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _of_thread() -> _Tools:
    global _tools  # noqa: PLW0603  made at first use: zstd stays out of import time
    if _tools is None:
        _tools = _Tools()
    return _tools
