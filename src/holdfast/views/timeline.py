"""The timeline of a run: one line per event, nested steps indented, with filters.

A ``Timeline`` remembers the nesting of steps, so that lines can be made one by one as events arrive.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from holdfast.errors import Misuse
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.event_text import KINDS, Mood, describe, subject

_PLACED: Final = frozenset({Kind.MARK, Kind.CHECKPOINT, Kind.WAIT_STARTED, Kind.QUESTION_ASKED})
"""The kinds, besides steps, that record their enclosing step."""


class Line(NamedTuple):
    """One event as a line. ``depth`` counts its enclosing steps; ``body`` is the recorded body."""

    seq: int
    at: float
    kind: str
    what: str
    name: str
    detail: str
    depth: int
    key: str
    fence: int
    body: dict[str, Any]
    mood: Mood


class Filter(NamedTuple):
    """Which lines to keep: kinds (``step`` means all of ``step.…``) and a name; ``*`` matches anything."""

    kinds: tuple[str, ...] = ()
    name: str = ""

    def keeps(self, event: Event) -> bool:
        """Whether the filter accepts the event."""
        if self.kinds and event.kind not in self.kinds and event.kind.partition(".")[0] not in self.kinds:
            return False
        return not self.name or fnmatchcase(event.name, self.name) or fnmatchcase(subject(event), self.name)


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """The kinds, if they exist. Misuse lists the valid ones."""
    whole = {kind.partition(".")[0]: None for kind in KINDS}
    for kind in kinds:
        if kind not in KINDS and kind not in whole:
            raise Misuse(
                problem=f"there are no events of kind {kind!r}",
                advice=f"use one of {', '.join(whole)}; or exactly one kind, like {Kind.STEP_FAILED}",
            )
    return tuple(kinds)


class Depths:
    """The nesting depth of each step. Scopes do not count: their names are not recorded."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def of(self, event: Event) -> int:
        """The depth of an event; a step's own depth is noted when it starts."""
        if event.kind == Kind.STEP_STARTED:
            self._of[event.key] = self._inside(fields_of(event.body).get("in", ""))
        if event.key in self._of:
            return self._of[event.key]
        if event.kind in _PLACED:
            return self._inside(fields_of(event.body).get("in", ""))
        return 0

    def _inside(self, scope: str) -> int:
        step = scope.partition(":")[0]
        return self._of.get(step, 0) + 1 if step else 0


def without_pieces(events: Sequence[Event]) -> list[Event]:
    """The events without the chunks of answers that are recorded in full: the answer repeats them."""
    whole = {event.key for event in events if event.kind == Kind.STEP_FINISHED}
    return [event for event in events if event.kind != Kind.STREAM_CHUNK or event.key not in whole]


class Timeline:
    """Turns events into lines, in the order of the journal."""

    def __init__(self, only: Filter | None = None) -> None:
        self._only = only or Filter()
        self._depths = Depths()
        self._attempt = 0

    def lines(self, events: Iterable[Event]) -> list[Line]:
        """The lines of more events, filtered."""
        return [line for event in events if (line := self.line(event)) is not None]

    def line(self, event: Event) -> Line | None:
        """The line of one more event; None if the filter drops it."""
        depth = self._depths.of(event)
        if event.kind == Kind.ATTEMPT_STARTED:
            self._attempt = fields_of(event.body)["number"]
        if not self._only.keeps(event):
            return None
        what, detail, mood = describe(event, attempt=self._attempt)
        body = contents_of(event.body)
        body.pop("view", None)  # of a compacted event: only the fold needs it, and it is long
        return Line(
            event.seq,
            event.at,
            event.kind,
            what,
            subject(event),
            detail,
            depth,
            event.key,
            event.fence,
            body,
            mood,
        )
