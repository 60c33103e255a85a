"""Drift: the program, running again, asks for something else than what stands recorded at that point.

A point is a scope and the call that its task finished last. In straight code no two calls share one, so a live
call is drift if a recorded call of the same name stands waiting at its point. Tasks started from one point share
it: they are judged together, once all of them have arrived.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from orjson import loads

from holdfast.model.calls import Call

UNKNOWN_AFTER = "?"
"""A thread without context: its point is not known, and nothing is judged by it."""


class Point(NamedTuple):
    """Where a call stands: in which scope, after which call, and whether it is the first of a new task there."""

    scope: str
    after: str
    forked: bool


class Standing:
    """The recorded calls by the point they stand at."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._at: dict[tuple[str, str], list[Call]] = {}
        for call in calls:
            if call.body is not None:
                body = loads(call.body)
                self._at.setdefault((body["in"], body["after"]), []).append(call)

    def find(self, point: Point, name: str) -> Call | None:
        """A recorded call of that name which waits at this point, or None."""
        for call in self._at.get((point.scope, point.after), ()):
            if call.name == name and call.is_waiting and not call.abandoned:
                return call
        return None

    def forked_count(self, scope: str, after: str) -> int:
        """How many tasks were recorded as started from this point."""
        return sum(1 for call in self._at.get((scope, after), ()) if call.body and loads(call.body).get("forked"))


def arguments_diff(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """The arguments that differ, one line each, as JSON; ``-`` recorded, ``+`` asked for now."""
    lines = []
    for name in sorted({*recorded, *asked}):
        before, now = recorded.get(name, _ABSENT), asked.get(name, _ABSENT)
        if before != now:
            lines += [f"  - {name}: {_short(before)}"] if before is not _ABSENT else []
            lines += [f"  + {name}: {_short(now)}"] if now is not _ABSENT else []
    return "\n".join(lines) or "  (the arguments are the same; the call stands at another place)"


_ABSENT: Any = object()


def _short(value: Any, chars_max: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"
