"""Reads the JSON of providers: what a client reads and a journal can keep as it is, and nothing else."""

from re import compile as pattern
from typing import Any, Final

from orjson import dumps, loads

_BOM: Final = b"\xef\xbb\xbf"
"""Some servers begin with a byte order mark, and the clients read past it."""
_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG: Final = b"0" * 19
"""A row of as many digits has it, when all of them are made zeros: a look without a pattern, which takes 30
times as long."""
_LONG_INTEGER: Final = pattern(rb"(?<![\w.+])\d{19}")
_DIGITS_SHOWN: Final = 40
_OPENED: Final = 200
"""Less than what is written: with fewer brackets nothing is nested too deeply."""


def parsed(data: bytes) -> Any:
    """The value. ValueError for no JSON, for what is too deep, and for an integer that would change."""
    data = data.removeprefix(_BOM)
    if _LONG in data.translate(_AS_ZEROS) and _LONG_INTEGER.search(data) is not None:
        # Perhaps in a text: only the slow parser tells.
        from json import loads as loads_slowly

        try:
            loads_slowly(data, parse_int=_checked_integer)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
    value = loads(data)
    if data.count(b"[") + data.count(b"{") > _OPENED:
        try:
            dumps(value)  # reads deeper than it writes
        except TypeError as error:
            raise ValueError("it is nested too deeply") from error
    return value


def _checked_integer(digits: str) -> int:
    shown = digits[:_DIGITS_SHOWN]
    if not -(2**63) <= (number := int(shown)) < 2**64:
        raise ValueError(f"the number {shown} has more than 64 bits")
    return number
