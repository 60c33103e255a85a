"""When a run was at work, as a row of small bars, and what its replays have saved."""

from collections.abc import Iterable
from typing import Final

from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import RunInfo
from holdfast.views.cost import ModelCost
from holdfast.views.run_record import RunRecord, total_saved

BINS: Final = 24


class Activity(NamedTuple):
    """The events of a run in equal parts of its life, as shares of the busiest part; and what was saved."""

    bars: tuple[float, ...]
    saved_s: float
    saved: ModelCost
    breaks: tuple[int, ...]
    """The parts in which an attempt ended unplanned."""


def activity(info: RunInfo, events: Iterable[Event], borrowed_seq: int = 0) -> Activity:
    """The activity of a run, from its journal."""
    record = RunRecord(info.run, borrowed_seq=borrowed_seq)
    kept = list(events)
    record.add(kept)
    lives = record.lives(info)
    saved_s, saved = total_saved(lives)
    if not kept:
        return Activity((0.0,) * BINS, saved_s, saved, ())
    first, last = kept[0].at, max(kept[-1].at, kept[0].at + 1e-6)
    counts = [0] * BINS

    def part(at: float) -> int:
        return min(BINS - 1, max(0, int((at - first) / (last - first) * BINS)))

    for event in kept:
        counts[part(event.at)] += 1
    ends = {part(life.ended_at) for life in lives if life.ended_at is not None and life.mood == "bad"}
    return Activity(tuple(n / max(counts) for n in counts), saved_s, saved, tuple(sorted(ends)))
