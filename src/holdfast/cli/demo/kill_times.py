"""When to kill: at a random point of the program's progress, which the seed decides.

A kill point is not a time but a place: so many recorded steps, and a part of the next. So a slow machine or a
slow model is hit in the middle of a step too, and a seed means the same everywhere.
"""

from math import ceil
from random import Random
from typing import NamedTuple


class KillPoint(NamedTuple):
    """Wait for so many new records, then for this part of the next step's likely duration."""

    records: int
    part: float


def choose_kill_point(rng: Random, *, steps_left: int, kills_left: int, is_first: bool) -> KillPoint:
    """A random kill point that leaves, on average, an even share of the work to every later kill.

    The first kill comes after the first record. A later one may come before the process has done anything.
    """
    which, part = rng.random(), rng.random()
    low = 1 if is_first else 0
    high = max(low, min(ceil(2 * steps_left / (kills_left + 1)), steps_left - 1))
    return KillPoint(low + int(which * (high - low + 1)), part)
