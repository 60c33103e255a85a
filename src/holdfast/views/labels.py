"""The labels of a run: those that its program gave to checkpoints, and those that people gave to points."""

from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.lineage.points import point_at
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.prune_report import Label
from holdfast.views.checkpoints import checkpoint_lines


class LabelLine(NamedTuple):
    """One label. ``by`` is the person who gave it; empty if its program did. ``point`` is 0 for an event."""

    name: str
    point: int
    seq: int
    by: str
    at: float


def label_lines(events: Sequence[Event], labels: Iterable[Label]) -> list[LabelLine]:
    """Every label of a run's history, in the order of its points."""
    lines = [
        LabelLine(line.label, line.point, line.seq, "", line.at)
        for line in checkpoint_lines(events)
        if line.label
    ]
    for label in labels:
        found = point_at(events, label.seq)
        if found is not None:
            lines.append(LabelLine(label.name, found[0], label.seq, label.by or "a person", label.at))
    return sorted(lines, key=lambda line: (line.seq, line.by))


def names_at(labels: Iterable[Label]) -> Mapping[int, str]:
    """The names that people gave, by the event at which each point ends."""
    return {label.seq: label.name for label in labels}
