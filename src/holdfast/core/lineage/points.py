"""Names of places in a run, as people type them: ``RUN``, ``RUN@44``, ``RUN@#1203``, ``RUN@draft-1``.

Steps and checkpoints share one counter, so a bare number is a point; ``#`` makes it an event; anything else
is the label of a checkpoint. Run ids have neither ``@`` nor ``#``, so there is one way to read each place.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.journal.fold import View, fold
from holdfast.errors import AmbiguousLabel, Misuse
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind


class Place(NamedTuple):
    """A run, and at most one of a point, an event or a label in it."""

    run: str
    point: int | None = None
    seq: int | None = None
    label: str | None = None

    @property
    def is_head(self) -> bool:
        """Whether the place is the whole run, up to its latest event."""
        return self.point is None and self.seq is None and self.label is None

    def __str__(self) -> str:
        if self.is_head:
            return self.run
        return f"{self.run}@#{self.seq}" if self.seq is not None else f"{self.run}@{self.point or self.label}"


def parse_place(text: str) -> Place:
    """Read a place that a person typed. Raises Misuse if it is malformed. The run or point may not exist."""
    run, sign, rest = text.partition("@")
    if not run:
        raise _refusal(text, "names no run")
    if not sign:
        return Place(run)
    if not rest:
        raise _refusal(text, "names no point after the @")
    if rest.startswith("#"):
        return Place(run, seq=_number(text, rest[1:], "event"))
    if rest.isdecimal():
        return Place(run, point=_number(text, rest, "point"))
    return Place(run, label=rest)


def find_event(events: Sequence[Event], place: Place) -> Event | None:
    """The event of a place: the outcome of a point, or the checkpoint of a label; None if there is none.

    Raises AmbiguousLabel if several checkpoints have the label, because it may mean any of them.
    """
    if place.seq is not None:
        return next((event for event in events if event.seq == place.seq), None)
    view = View()
    labelled: dict[int, Event] = {}
    for event in events:
        before = view.points
        view.add(event)
        if view.points == before or event.kind == Kind.COMPACTED:
            continue
        if view.points == place.point:
            return event
        if place.label is not None and _is_labelled(event, place.label):
            labelled[view.points] = event
    if len(labelled) > 1:
        points = ", ".join(map(str, labelled))
        raise AmbiguousLabel(run=place.run, label=place.label, points=points, last_point=max(labelled))
    return next(iter(labelled.values()), None)


def end_of_point(events: Sequence[Event], outcome: Event) -> int:
    """The last event that belongs to an outcome: the sign of a loop in the same append, or the outcome."""
    behind = next((event for event in events if event.seq == outcome.seq + 1), outcome)
    is_sign = behind.kind in {Kind.LOOP_NOTICED, Kind.LOOP_LEFT} and behind.key == outcome.key
    return behind.seq if is_sign else outcome.seq


def last_point(events: Sequence[Event]) -> int:
    """How many points there are."""
    return fold(events).points


def _is_labelled(event: Event, label: str) -> bool:
    return event.kind == Kind.CHECKPOINT and fields_of(event.body).get("label") == label


def _number(text: str, digits: str, what: str) -> int:
    # ``isdecimal`` and ``int`` also accept the digits of other scripts. Holdfast prints ASCII and reads only
    # that.
    if not (digits.isascii() and digits.isdecimal()) or int(digits) == 0:
        raise _refusal(text, f"names no {what}: {digits!r} is not a number from 1")
    return int(digits)


def _refusal(text: str, problem: str) -> Misuse:
    return Misuse(
        problem=f"{text!r} {problem}",
        advice="write RUN for a run, RUN@44 for a point, RUN@#1203 for an event, RUN@draft-1 for a label",
    )
