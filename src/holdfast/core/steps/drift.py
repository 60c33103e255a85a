"""Drift: the program, running again, asks for something else than what stands recorded at that point.

A point is a scope and the call that its task finished last. In straight code no two calls share one, so a live
call is drift if a recorded call of the same name stands waiting at its point. Tasks started from one point share
it: they are judged together, once all of them have arrived.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from holdfast.model.calls import Call
from holdfast.model.event_fields import contents_of

UNKNOWN_AFTER = "?"
"""A thread without context: its point is not known, and nothing is judged by it."""


class Point(NamedTuple):
    """Where a call stands: in which scope, after which call, and whether it is the first of a new task there."""

    scope: str
    after: str
    forked: bool


class RecordedPoints:
    """The recorded calls by the point they stand at."""

    def __init__(self, calls: Iterable[Call], body_of: Callable[[Call], bytes]) -> None:
        """Only what still waits can be stood on; steps only, since marks have no point (and no seq of an intent)."""
        self._at: dict[tuple[str, str], list[Call]] = {}
        self._forked: dict[tuple[str, str], int] = {}
        for call in calls:
            if call.seq and call.is_waiting:
                body = contents_of(body_of(call))
                point = (body["in"], body["after"])
                self._at.setdefault(point, []).append(call)
                if body.get("forked"):
                    self._forked[point] = self._forked.get(point, 0) + 1

    def find(self, point: Point, name: str) -> Call | None:
        """A recorded call of that name which waits at this point, or None."""
        for call in self._at.get((point.scope, point.after), ()):
            if call.name == name and call.is_waiting and not call.abandoned:
                return call
        return None

    def forked_count(self, scope: str, after: str) -> int:
        """How many tasks were recorded as started from this point."""
        return self._forked.get((scope, after), 0)


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
