"""Finds the places of a pruned history that can be continued from, and the nearest to one that is gone."""

from collections.abc import Sequence

from holdfast.core.journal.fold import fold
from holdfast.core.journal.lineage import effective
from holdfast.core.lineage.views_by_event import walk
from holdfast.model.event_fields import is_hollow
from holdfast.model.events import COVERING, Event, Kind


def is_kept(events: Sequence[Event], seq: int) -> bool:
    """Whether a fork or rewind can begin at this event: the event and the state to begin with exist."""
    upto = [event for event in events if event.seq <= seq]
    if not upto or upto[-1].seq != seq or upto[-1].kind in COVERING:
        return False
    view = fold(effective(upto))
    return not view.base or view.checkpoint is not None


def has_state(events: Sequence[Event], seq: int) -> bool:
    """Whether the very state at this event exists, and not only an older one that leads to it by replay."""
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
    """The place nearest to a pruned event or point from which a history can continue.

    ``with_state``: only checkpoints that have their state.
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
