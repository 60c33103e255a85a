"""Which of the candidates comes first: by words and by meaning together, and by how lately they were of use.

Numbers in, numbers out: it knows neither texts nor vectors nor clocks. Scores of words and of meaning have no scale in common,
so each is brought to one by the candidates themselves, and the halves are added. To add up places instead (reciprocal rank
fusion) was measured worse: it forgets by how much the first was better than the second. ``bench memory_quality`` measures both.
"""

from collections.abc import Hashable, Mapping
from math import log2
from typing import Final, TypeVar

Key = TypeVar("Key", bound=Hashable)

HALF_LIFE_DAYS: Final = 69.0
_FLOOR: Final = 0.2
_FLOOR_BY_IMPORTANCE: Final = 0.3
_WORDS: Final = 0.5
NEAR_MIN: Final = 0.25
"""A cosine below this tells of nothing in common: with vectors, everything is near something."""


def fuse(bm25: Mapping[Key, float], cosine: Mapping[Key, float]) -> dict[Key, float]:
    """A score from 0 to 1 for each candidate of either: half by its words, half by its meaning; what it lacks counts 0.

    Cosines are spread from the lowest to the highest; but of few candidates that are all near, none is made out to be far.
    """
    best = max(bm25.values(), default=0.0)
    low, high = min(NEAR_MIN, *cosine.values()) if cosine else 0.0, max(cosine.values(), default=0.0)
    scores: dict[Key, float] = {}
    for key in {**bm25, **cosine}:
        by_words = max(0.0, bm25.get(key, 0.0)) / best if best > 0 else 0.0
        by_meaning = 0.0
        if key in cosine:
            by_meaning = (cosine[key] - low) / (high - low) if high > low else float(high > 0)
        scores[key] = _WORDS * by_words + (1 - _WORDS) * min(1.0, by_meaning)
    return scores


def decay(age_days: float, uses: int, importance: float) -> float:
    """What is left of a score when its fact was last of use so long ago: 1 for now, never less than a floor.

    It halves in 69 days; the more often it was of use, the slower. The floor is 0.2 for what is of no importance and 0.5 for
    what is of the greatest: old never means gone.
    """
    floor = _FLOOR + _FLOOR_BY_IMPORTANCE * min(1.0, max(0.0, importance))
    half_life = HALF_LIFE_DAYS * (1 + log2(1 + max(0, uses)))
    return float(floor + (1 - floor) * 0.5 ** (max(0.0, age_days) / half_life))
