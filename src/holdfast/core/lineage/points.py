"""Names of places in a run, as people type them: ``RUN``, ``RUN@44``, ``RUN@#1203``, ``RUN@draft-1``.

Steps and checkpoints share one counter, so a bare number is a point; ``#`` makes it an event; anything else
is a label, which the program gave to a checkpoint, or a person to any point. Run ids have neither ``@`` nor
``#``, so there is one way to read each place.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from holdfast.core.journal.fold import View, fold
from holdfast.errors import AmbiguousLabel, Misuse
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple

_DIGITS_MAX: Final = 18
"""No journal has a longer number, and Python refuses to read one of thousands of digits."""


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


def find_event(events: Sequence[Event], place: Place, named: Collection[int] = ()) -> Event | None:
    """The event of a place: the outcome of a point, or the event of a label; None if there is none.

    ``named`` are the events that people gave the label of the place to. Raises AmbiguousLabel if the label
    may mean several.
    """
    if place.seq is not None:
        return next((event for event in events if event.seq == place.seq), None)
    labelled: dict[int, tuple[str, Event]] = {}
    for number, event, is_point in _numbered(events):
        if place.point is not None:
            if is_point and number == place.point:
                return event
        elif is_point and _is_labelled(event, place.label):
            labelled[event.seq] = str(number), event
    for seq in named:
        if (found := point_at(events, seq)) is not None:
            number, event = found
            labelled[event.seq] = str(number or f"#{seq}"), event
    if len(labelled) > 1:
        shown = [words for words, _ in (labelled[seq] for seq in sorted(labelled))]
        raise AmbiguousLabel(run=place.run, label=place.label, points=", ".join(shown), last_point=shown[-1])
    return next((event for _, event in labelled.values()), None)


def labelled_by_program(events: Sequence[Event], label: str) -> int | None:
    """The latest checkpoint that the program has given this label; None if there is none."""
    return next((event.seq for event in reversed(events) if _is_labelled(event, label)), None)


def place_at(run: str, events: Sequence[Event], seq: int) -> str:
    """The place of an event, as a person types it: its point, or the event itself."""
    found = point_at(events, seq)
    return f"{run}@{found[0] if found and found[0] else f'#{seq}'}"


def point_at(events: Sequence[Event], seq: int) -> tuple[int, Event] | None:
    """The number and the outcome of the point that ends with this event; 0 and the event if none does.

    None if the event is not among these.
    """
    latest: tuple[int, Event] | None = None
    for number, event, is_point in _numbered(events):
        latest = (number, event) if is_point else latest
        if event.seq == seq:
            is_end = latest is not None and seq in {latest[1].seq, end_of_point(events, latest[1])}
            return latest if is_end else (0, event)
    return None


def _numbered(events: Sequence[Event]) -> Iterator[tuple[int, Event, bool]]:
    """Each event, with the number of the latest point, and whether it is that point."""
    view = View()
    for event in events:
        before = view.points
        view.add(event)
        yield view.points, event, view.points != before and event.kind != Kind.COMPACTED


def end_of_point(events: Sequence[Event], outcome: Event) -> int:
    """The last event that belongs to an outcome: the sign of a loop in the same append, or the outcome."""
    behind = next((event for event in events if event.seq == outcome.seq + 1), outcome)
    is_sign = behind.kind in {Kind.LOOP_NOTICED, Kind.LOOP_LEFT} and behind.key == outcome.key
    return behind.seq if is_sign else outcome.seq


def last_point(events: Sequence[Event]) -> int:
    """How many points there are."""
    return fold(events).points


def _is_labelled(event: Event, label: str | None) -> bool:
    return event.kind == Kind.CHECKPOINT and fields_of(event.body).get("label") == label


def _number(text: str, digits: str, what: str) -> int:
    # ``isdecimal`` and ``int`` also accept the digits of other scripts. Holdfast prints ASCII and reads only
    # that.
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX
    if not is_number or int(digits) == 0:
        raise _refusal(text, f"names no {what}: {digits!r} is not a number from 1")
    return int(digits)


def _refusal(text: str, problem: str) -> Misuse:
    return Misuse(
        problem=f"{text!r} {problem}",
        advice="write RUN for a run, RUN@44 for a point, RUN@#1203 for an event, RUN@draft-1 for a label",
    )
