"""Drift: the program runs again and makes another call than the one recorded at that position.

A position is a scope and the call that the task finished last. In sequential code no two calls share one, so
a new call is drift if a recorded call of the same name waits at its position. Tasks started from one position
share it: they are compared together, once all of them have arrived.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of

UNKNOWN_AFTER = "?"
"""The position of a call from a thread without context. It is unknown, so the call is never drift."""


class Point(NamedTuple):
    """The position of a call: its scope, the call before it, and whether it is the first of a new task."""

    scope: str
    after: str
    forked: bool


class RecordedPoints:
    """The recorded calls by their position."""

    def __init__(self, calls: Iterable[Call], body_of: Callable[[Call], bytes]) -> None:
        self._at: dict[tuple[str, str], list[Call]] = {}
        self._forked: dict[tuple[str, str], int] = {}
        for call in calls:
            # Marks have no position, and no intent (seq 0). A call that the program already got is no
            # candidate.
            if call.seq and call.is_waiting:
                body = contents_of(body_of(call))
                point = (body["in"], body["after"])
                self._at.setdefault(point, []).append(call)
                if body.get("forked"):
                    self._forked[point] = self._forked.get(point, 0) + 1

    def find(self, point: Point, name: str) -> Call | None:
        """A recorded call of that name that waits at this position, or None."""
        for call in self._at.get((point.scope, point.after), ()):
            if call.name == name and call.is_waiting and not call.abandoned:
                return call
        return None

    def forked_count(self, scope: str, after: str) -> int:
        """How many tasks the journal has that started from this position."""
        return self._forked.get((scope, after), 0)


def arguments_diff(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """The arguments that differ, one line each: ``-`` as recorded, ``+`` as called now."""
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
