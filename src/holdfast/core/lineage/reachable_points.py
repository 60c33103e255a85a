"""From which places of a history that was pruned somebody can still go on, and which is the nearest to one that is gone."""

from collections.abc import Sequence

from holdfast.core.journal.fold import fold
from holdfast.core.journal.lineage import effective
from holdfast.core.lineage.views_by_event import walk
from holdfast.model.event_fields import is_hollow
from holdfast.model.events import COVERING, Event, Kind


def is_kept(events: Sequence[Event], seq: int) -> bool:
    """Whether a history can go on from this event: it is there, and the state that it would begin with too."""
    upto = [event for event in events if event.seq <= seq]
    if not upto or upto[-1].seq != seq or upto[-1].kind in COVERING:
        return False
    view = fold(effective(upto))
    return not view.base or view.checkpoint is not None


def has_state(events: Sequence[Event], seq: int) -> bool:
    """Whether the state in force at this event is there: not only an older one, from which the program comes to it."""
    latest = None
    for event in effective(event for event in events if event.seq <= seq):
        if event.kind in {Kind.CHECKPOINT, Kind.COMPACTED}:
            latest = event
    return latest is None or not is_hollow(latest.body)


def nearest_place(
    run: str,
    events: Sequence[Event],
    *,
    seq: int | None = None,
    point: int | None = None,
    with_state: bool = False,
) -> str:
    """The place that a history can go on from and that is nearest to an event or point that is not there any more.

    ``with_state``: among checkpoints that have their state.
    """
    best, nearest = None, f"{run}"
    points = 0
    for at, view in walk(effective(events)):
        is_point, points = view.points > points, view.points
        if view.last is None or at in {view.base, 0} or (view.base and view.checkpoint is None):
            continue
        if point is not None and not is_point:
            continue
        if with_state and (view.checkpoint is None or view.checkpoint.seq != at):
            continue
        distance = abs(at - seq) if seq is not None else abs(points - (point or 0))
        if best is None or distance < best:
            best, nearest = distance, f"{run}@{points}" if is_point else f"{run}@#{at}"
    return nearest
