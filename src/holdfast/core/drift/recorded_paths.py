"""The recorded calls of the root task by the path that led to them.

A new call of the root task is a deviation if a recorded call that the program has not asked for has the same
path: the program branched off, and may never ask for anything that was recorded later. An attempt that
follows such a branch makes no new call at that place, so it is found by the two records that share a path.
"""

from collections.abc import Callable, Container, Iterable
from math import inf

from holdfast.core.steps.call_point import NO_PATH, Point
from holdfast.model.calls import Call
from holdfast.model.event_fields import fields_of


class RecordedPaths:
    """Calls that wait for the program to ask for them. Marks have no intent, and so no path."""

    def __init__(self, calls: Iterable[Call], intent_of: Callable[[Call], bytes]) -> None:
        self.is_empty = True
        self._by_path: dict[int, list[Call]] = {}
        self._by_point: dict[tuple[str, str], list[Call]] = {}
        """Calls of older journals, which have no paths.

        Tasks that share a first step can swap these points.
        """
        for call in calls:
            if not call.seq or not call.is_waiting:
                continue
            self.is_empty = False
            fields = fields_of(intent_of(call))
            if "path" in fields:
                self._by_path.setdefault(fields["path"], []).append(call)
            elif not fields.get("forked"):
                self._by_point.setdefault((fields["in"], fields["after"]), []).append(call)

    def find(self, point: Point, name: str) -> Call | None:
        """The recorded call that waits where this one is made; None if there is none."""
        if point.path == NO_PATH:
            return None
        for call in self._by_path.get(point.path, ()):
            if call.is_waiting and not call.abandoned:
                return call
        for call in self._by_point.get((point.scope, point.after), ()):
            if call.name == name and call.is_waiting and not call.abandoned:
                return call
        return None


class Branches:
    """The recorded calls of the root task that share a path: different attempts went different ways."""

    def __init__(self, calls: Iterable[Call], intent_of: Callable[[Call], bytes]) -> None:
        by_path: dict[int, list[Call]] = {}
        for call in calls:
            path = fields_of(intent_of(call)).get("path", NO_PATH)
            if path != NO_PATH:
                by_path.setdefault(path, []).append(call)
        self._calls = [calls for calls in by_path.values() if len(calls) > 1]

    def passed_seq(self, cursor_seq: int, running: Container[str] = ()) -> float:
        """The first recorded call that this attempt left out by following another branch; inf for none.

        ``running`` are the keys of calls that the program has begun, and that have no outcome yet.
        """
        return min(
            (
                call.seq
                for calls in self._calls
                if any(one.seq > cursor_seq and (not one.is_waiting or one.key in running) for one in calls)
                for call in calls
                if call.is_waiting and not call.abandoned and call.key not in running
            ),
            default=inf,
        )
