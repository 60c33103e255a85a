"""The checkpoints of a run as a list, oldest first."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import contents_of
from holdfast.model.events import AUTOSAVE, Event, Kind
from holdfast.views.value_text import state_line


class CheckpointLine(NamedTuple):
    """One checkpoint.

    ``kept``: whether its state still exists; ``rebuild``: the paths that were left out of it.
    """

    point: int
    seq: int
    at: float
    label: str
    by: Literal["program", "autosave"]
    attempt: int
    state_bytes: int
    kept: bool
    state: str
    rebuild: tuple[str, ...]


def checkpoint_lines(events: Iterable[Event]) -> list[CheckpointLine]:
    """Every checkpoint in a run's history."""
    lines: list[CheckpointLine] = []
    view = View()
    for event in events:
        view.add(event)
        if event.kind == Kind.CHECKPOINT:
            body = contents_of(event.body)
            lines.append(
                CheckpointLine(
                    point=view.points,
                    seq=event.seq,
                    at=event.at,
                    label=body.get("label") or "",
                    by="autosave" if event.name == AUTOSAVE else "program",
                    attempt=view.attempts[-1].number if view.attempts else 0,
                    state_bytes=body.get("state_bytes", 0),
                    kept="state" in body,
                    state=f"{body['note']}: {state_line(body)}" if body.get("note") else state_line(body),
                    rebuild=tuple(body.get("rebuild", ())),
                )
            )
    return lines
