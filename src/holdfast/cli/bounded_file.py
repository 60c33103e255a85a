"""Reads a file that was named on the command line, up to a bound: it may be anything."""

import sys
from pathlib import Path

from holdfast.errors import TooLarge


def read_file(path: str, size_max: int) -> bytes:
    """Its content; ``-`` is stdin. TooLarge, having read no more than the bound; OSError."""
    if path == "-":
        data = sys.stdin.buffer.read(size_max + 1)
    else:
        with Path(path).open("rb") as file:
            data = file.read(size_max + 1)
    if len(data) > size_max:
        raise TooLarge(what=path, size=len(data), size_max=size_max, unit="bytes")
    return data
