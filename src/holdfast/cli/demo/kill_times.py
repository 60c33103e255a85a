"""When to kill: at a random moment of the program's progress, the same one for the same seed.

A moment is not a time but a place: so many steps recorded, and so far into the next. That way a slow machine or a
slow model is hit in the middle too, and a seed means the same everywhere.
"""

from math import ceil
from random import Random
from typing import NamedTuple


class Moment(NamedTuple):
    """Wait for so many new records; then for this part of the time that the next step is likely to take."""

    records: int
    part: float


def choose_moment(rng: Random, *, steps_left: int, kills_left: int, is_first: bool) -> Moment:
    """A random moment that leaves, on average, an even share of the work to every kill that follows.

    The first kill comes after the first record. A later one may come before the process has done anything.
    """
    which, part = rng.random(), rng.random()
    low = 1 if is_first else 0
    high = max(low, min(ceil(2 * steps_left / (kills_left + 1)), steps_left - 1))
    return Moment(low + int(which * (high - low + 1)), part)
