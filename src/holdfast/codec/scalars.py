"""The stored forms of small types of the standard library, with writer and reader side by side.

It knows what each value needs to be exact: a datetime's fold, a Decimal's trailing zeros, a path's flavour.
It does not know containers, user classes, or how the parts of a form are written. The invariant:
``read(write(value))`` is equal to ``value`` and of the same type.

A datetime with a named zone is stored as wall time and zone, as in pickle.

Modules that ``orjson`` does not load (decimal, pathlib, …) are not imported for writing: a value of their
types can only exist if they are loaded.
"""

import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from re import Pattern
from re import compile as compile_pattern
from typing import Any, Final
from uuid import UUID

from holdfast.model.markers import KNOWN
from holdfast.model.named_tuple import NamedTuple

Fields = dict[str, Any]
"""The parts of a form by key, ``v`` first; without the tag."""

_DECIMAL_BITS_MAX: Final = 2_048
"""Larger ints are written in hexadecimal: Python limits decimal conversion, and it takes quadratic time."""


_MINUTE: Final = timedelta(minutes=1)


class Form(NamedTuple):
    """How one type is written: the tag, value to parts, and parts to value."""

    tag: str
    write: Callable[[Any], Fields]
    read: Callable[[Fields], Any]


def write_int(value: int) -> Fields:
    return {"v": str(value) if value.bit_length() <= _DECIMAL_BITS_MAX else hex(value)}


def write_text(value: str) -> Fields:
    """Text that UTF-8 cannot hold: lone surrogates, as in file names of another encoding."""
    parts = _split(value)
    return {"v": _escaped(value) if parts is None else _in_turn(parts, _escaped)}


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")


def _read_text(fields: Fields) -> str:
    content = fields["v"]
    return _unescaped(content) if type(content) is str else _refilled(_in_turn(content, _unescaped))


def _unescaped(text: str) -> str:
    return text.encode("ascii").decode("unicode_escape")


def _split(value: Any) -> list[Any] | None:
    """Text, or bytes, and names of secrets in turn; None if there are none."""
    if not KNOWN:
        return None
    from holdfast.codec.secrets import split, split_bytes

    return split(value) if type(value) is str else split_bytes(value)


def _refilled(parts: list[Any]) -> str:
    from holdfast.codec.filled_secrets import refill

    return refill(parts)


def _in_turn(parts: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    """Text, or bytes, and names of secrets in turn; the names stay. See ``model.secret_text``."""
    return [one if number % 2 else change(one) for number, one in enumerate(parts)]


def _write_bytes(value: bytes | bytearray) -> Fields:
    parts = _split(value)
    return {"v": _base64(value) if parts is None else _in_turn(parts, _base64)}


def _base64(data: bytes | bytearray) -> str:
    return b2a_base64(data, newline=False).decode("ascii")


def _read_bytes(fields: Fields) -> bytes:
    content = fields["v"]
    if type(content) is str:
        return a2b_base64(content, strict_mode=True)
    texts = _in_turn(
        content, lambda one: a2b_base64(one, strict_mode=True).decode("utf-8", "surrogateescape")
    )
    return _refilled(texts).encode("utf-8", "surrogateescape")


def _write_moment(value: datetime | time) -> Fields:
    zone = value.tzinfo
    if zone is None or _is_bare_offset(zone):
        fields: Fields = {"v": value.isoformat()}
    else:
        fields = {"v": value.replace(tzinfo=None).isoformat(), "zone": zone}
    if value.fold:
        fields["fold"] = value.fold
    return fields


def _is_bare_offset(zone: object) -> bool:
    """Whether ISO notation preserves the zone.

    It fails for finer offsets: CPython reads +00:00:00.5 as UTC.
    """
    if type(zone) is not timezone:
        return False
    offset, *name = _offset_args(zone)
    return not name and not offset % _MINUTE


def _offset_args(zone: Any) -> tuple[Any, ...]:
    args: tuple[Any, ...] = zone.__getinitargs__()  # the only way to tell a given name from a generated one
    return args


def _write_offset(zone: timezone) -> Fields:
    return dict(zip(("v", "name"), _offset_args(zone), strict=False))


def _read_offset(fields: Fields) -> timezone:
    return timezone(fields["v"], fields["name"]) if "name" in fields else timezone(fields["v"])


def _read_datetime(fields: Fields) -> datetime:
    value = datetime.fromisoformat(fields["v"])
    return value.replace(tzinfo=fields.get("zone", value.tzinfo), fold=fields.get("fold", 0))


def _read_time(fields: Fields) -> time:
    value = time.fromisoformat(fields["v"])
    return value.replace(tzinfo=fields.get("zone", value.tzinfo), fold=fields.get("fold", 0))


def _write_timedelta(value: timedelta) -> Fields:
    return {"v": [value.days, value.seconds, value.microseconds]}


def _write_pattern(value: Pattern[Any]) -> Fields:
    return {"v": value.pattern, "flags": value.flags}


def _write_zone(value: Any) -> Fields:
    # None for a zone that was made from a file; it could not be read back, so tagging refuses it
    return {"v": value.key}


def _read_zone(fields: Fields) -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo(fields["v"])


def _read_decimal(fields: Fields) -> Any:
    from decimal import Decimal

    return Decimal(fields["v"])


def _read_fraction(fields: Fields) -> Any:
    from fractions import Fraction

    return Fraction(*fields["v"])


def _in_pathlib(name: str) -> Callable[[Fields], Any]:
    def read(fields: Fields) -> Any:
        import pathlib

        return getattr(pathlib, name)(fields["v"])

    return read


def _in_ipaddress(name: str) -> Callable[[Fields], Any]:
    def read(fields: Fields) -> Any:
        import ipaddress

        return getattr(ipaddress, name)(fields["v"])

    return read


def _write_str(value: object) -> Fields:
    return {"v": str(value)}


INT: Final = Form("int", write_int, lambda fields: int(fields["v"], 0))
FLOAT: Final = Form("float", lambda value: {"v": repr(value)}, lambda fields: float(fields["v"]))
TEXT: Final = Form("str", write_text, _read_text)

FORMS: Final[dict[type, Form]] = {
    bytes: Form("bytes", _write_bytes, _read_bytes),
    bytearray: Form("bytearray", _write_bytes, lambda fields: bytearray(_read_bytes(fields))),
    complex: Form(
        "complex", lambda value: {"v": [value.real, value.imag]}, lambda fields: complex(*fields["v"])
    ),
    range: Form(
        "range",
        lambda value: {"v": [value.start, value.stop, value.step]},
        lambda fields: range(*fields["v"]),
    ),
    datetime: Form("datetime", _write_moment, _read_datetime),
    date: Form(
        "date", lambda value: {"v": value.isoformat()}, lambda fields: date.fromisoformat(fields["v"])
    ),
    time: Form("time", _write_moment, _read_time),
    timedelta: Form("timedelta", _write_timedelta, lambda fields: timedelta(*fields["v"])),
    timezone: Form("offset", _write_offset, _read_offset),
    UUID: Form("uuid", _write_str, lambda fields: UUID(fields["v"])),
    Pattern: Form("pattern", _write_pattern, lambda fields: compile_pattern(fields["v"], fields["flags"])),
}
"""By exact type. Types of late modules are added when they first occur."""

_LATE: Final = (
    ("decimal", "Decimal", Form("decimal", _write_str, _read_decimal)),
    (
        "fractions",
        "Fraction",
        Form("fraction", lambda value: {"v": [*value.as_integer_ratio()]}, _read_fraction),
    ),
    ("zoneinfo", "ZoneInfo", Form("zone", _write_zone, _read_zone)),
    ("pathlib", "PosixPath", Form("path", _write_str, _in_pathlib("PosixPath"))),
    ("pathlib", "WindowsPath", Form("windows-path", _write_str, _in_pathlib("WindowsPath"))),
    ("pathlib", "PurePosixPath", Form("pure-path", _write_str, _in_pathlib("PurePosixPath"))),
    ("pathlib", "PureWindowsPath", Form("pure-windows-path", _write_str, _in_pathlib("PureWindowsPath"))),
    ("ipaddress", "IPv4Address", Form("ipv4", _write_str, _in_ipaddress("IPv4Address"))),
    ("ipaddress", "IPv6Address", Form("ipv6", _write_str, _in_ipaddress("IPv6Address"))),
    ("ipaddress", "IPv4Network", Form("ipv4-network", _write_str, _in_ipaddress("IPv4Network"))),
    ("ipaddress", "IPv6Network", Form("ipv6-network", _write_str, _in_ipaddress("IPv6Network"))),
    ("ipaddress", "IPv4Interface", Form("ipv4-interface", _write_str, _in_ipaddress("IPv4Interface"))),
    ("ipaddress", "IPv6Interface", Form("ipv6-interface", _write_str, _in_ipaddress("IPv6Interface"))),
)

_LATE_ROOTS: Final = frozenset(module for module, _, _ in _LATE)

READERS: Final[dict[str, Callable[[Fields], Any]]] = {
    form.tag: form.read for form in (INT, FLOAT, TEXT, *FORMS.values(), *(form for _, _, form in _LATE))
}


def find_form(kind: type) -> Form | None:
    """The form of exactly this type, or None."""
    form = FORMS.get(kind)
    if form is not None or kind.__module__.partition(".")[0] not in _LATE_ROOTS:
        return form
    for module, name, late in _LATE:
        # compare with the module's own class: any class can claim to be decimal's
        if getattr(sys.modules.get(module), name, None) is kind:
            FORMS[kind] = late
            return late
    return None
