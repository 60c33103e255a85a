"""Compares the arguments of two calls: whether they are equal by value, and what differs."""

from collections.abc import Mapping
from typing import Any

_ABSENT: Any = object()


def are_equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal in Python: ``1`` and ``1.0`` are.

    ``1`` and ``True`` count as different.
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_equal, one, other))
    return bool(one == other)


def is_same_by_value(
    recorded: Mapping[str, Any], asked: Mapping[str, Any], defaults: Mapping[str, Any]
) -> bool:
    """Whether the arguments are equal by value.

    Parameters at their default that the record lacks do not count.
    """
    given = {
        name: value
        for name, value in asked.items()
        if name in recorded or name not in defaults or not are_equal(value, defaults[name])
    }
    return are_equal(dict(recorded), given)


def arguments_diff(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """The arguments that differ, one line each: ``-`` as recorded, ``+`` as called now."""
    lines = []
    for name in sorted({*recorded, *asked}):
        before, now = recorded.get(name, _ABSENT), asked.get(name, _ABSENT)
        if before != now:
            lines += [f"  - {name}: {_short(before)}"] if before is not _ABSENT else []
            lines += [f"  + {name}: {_short(now)}"] if now is not _ABSENT else []
    return "\n".join(lines) or "  (the arguments are the same; the call is at another place)"


def call_line(name: str, arguments: Any, chars_max: int = 160) -> str:
    """A call as one line of code, cut off where it is long."""
    named = isinstance(arguments, Mapping)
    told = ", ".join(f"{one}={value!r}" for one, value in arguments.items()) if named else "…"
    return cut_text(f"{name}({told})", chars_max)


def cut_text(text: str, chars_max: int = 200) -> str:
    """The text, cut off where it is long."""
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def _short(value: Any) -> str:
    return cut_text(repr(value))
