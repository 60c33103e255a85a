"""The checkpoints of a run as a list, oldest first."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import contents_of
from holdfast.model.events import AUTOSAVE, EDITED, Event, Kind
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.value_text import state_line


class CheckpointLine(NamedTuple):
    """One checkpoint.

    ``kept``: whether its state still exists; ``rebuild``: the paths that were left out of it.
    """

    point: int
    seq: int
    at: float
    label: str
    """The one that the program gave it, or else a person."""
    by: Literal["program", "autosave", "person"]
    attempt: int
    state_bytes: int
    kept: bool
    state: str
    rebuild: tuple[str, ...]
    person: str = ""
    """Who edited the state, if a person did."""


_BY: Final[dict[str, Literal["autosave", "person"]]] = {AUTOSAVE: "autosave", EDITED: "person"}


def checkpoint_lines(
    events: Iterable[Event], names: Mapping[int, str] = MappingProxyType({})
) -> list[CheckpointLine]:
    """Every checkpoint in a run's history. ``names`` are those that people gave, by event."""
    lines: list[CheckpointLine] = []
    view = View()
    for event in events:
        view.add(event)
        if event.kind == Kind.CHECKPOINT:
            attempt = view.attempts[-1].number if view.attempts else 0
            lines.append(checkpoint_line(event, view.points, attempt, names.get(event.seq, "")))
    return lines


def checkpoint_line(event: Event, point: int, attempt: int, name: str = "") -> CheckpointLine:
    """One checkpoint, by its event."""
    body = contents_of(event.body)
    return CheckpointLine(
        point=point,
        seq=event.seq,
        at=event.at,
        label=body.get("label") or name,
        by=_BY.get(event.name, "program"),
        attempt=attempt,
        state_bytes=body.get("state_bytes", 0),
        kept="state" in body,
        state=f"{body['note']}: {state_line(body)}" if body.get("note") else state_line(body),
        rebuild=tuple(body.get("rebuild", ())),
        person=body.get("by", ""),
    )
