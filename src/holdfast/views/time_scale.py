"""A time axis on which pauses are short: hours without work take no more room than a narrow gap.

A run works for minutes, waits for days, and works again. On a plain axis the work would be a hair.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from holdfast.model.named_tuple import NamedTuple

_GAP_SHARE: Final = 0.04
"""How much of the axis a pause takes at most."""


class Stretch(NamedTuple):
    """A time in which something happened, and its part of the axis from 0 to 1."""

    started_at: float
    ended_at: float
    left: float
    right: float


class TimeScale:
    """Maps moments to places between 0 and 1, in order."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        """From the times in which something happened, in any order; they may overlap."""
        joined = _joined(spans)
        work_s = sum(end - start for start, end in joined) or 1.0
        pauses = [after[0] - before[1] for before, after in pairwise(joined)]
        gaps = [min(pause, work_s * _GAP_SHARE) for pause in pauses]
        whole = work_s + sum(gaps)
        self.stretches: list[Stretch] = []
        at = 0.0
        for number, (start, end) in enumerate(joined):
            self.stretches.append(Stretch(start, end, at / whole, (at + (end - start)) / whole))
            at += end - start + (gaps[number] if number < len(gaps) else 0.0)
        self._starts = [stretch.started_at for stretch in self.stretches]

    def place(self, at: float) -> float:
        """Where a moment is: 0 at the beginning, 1 at the end."""
        if not self.stretches:
            return 0.0
        here = max(0, bisect_right(self._starts, at) - 1)
        start, end, left, right = self.stretches[here]
        if at <= end or here == len(self.stretches) - 1:
            share = (at - start) / (end - start) if end > start else 0.0
            return left + (right - left) * min(1.0, max(0.0, share))
        after = self.stretches[here + 1]
        return right + (after.left - right) * (at - end) / (after.started_at - end)


def _joined(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times without overlaps, in order."""
    joined: list[tuple[float, float]] = []
    for start, end in sorted((start, max(start, end)) for start, end in spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined
