"""Scores candidates by words and by meaning together, and by how recently they were used.

It computes with numbers and knows neither texts, vectors nor clocks. BM25 scores and cosines have no common
scale, so each is scaled by the candidates themselves, and the halves are added. Reciprocal rank fusion, which
adds up ranks, was measured worse: it ignores by how much the first is better than the second. ``bench
memory_quality`` measures both.
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
"""A lower cosine means nothing in common. Some candidate is always the nearest, even if none fits."""


def fuse(bm25: Mapping[Key, float], cosine: Mapping[Key, float]) -> dict[Key, float]:
    """A score from 0 to 1 for each candidate: half by its words, half by its meaning; a missing half is 0.

    Cosines are scaled from the lowest to the highest. The lowest is at most ``NEAR_MIN``, so that among a few
    near candidates the last one does not get 0.
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
    """The factor for a fact that was last used so long ago: 1 for now, never less than a floor.

    It halves in 69 days, and more slowly the more often the fact was used. The floor is 0.2 for importance 0
    and 0.5 for importance 1, so an old fact can still be found.
    """
    floor = _FLOOR + _FLOOR_BY_IMPORTANCE * min(1.0, max(0.0, importance))
    half_life = HALF_LIFE_DAYS * (1 + log2(1 + max(0, uses)))
    return float(floor + (1 - floor) * 0.5 ** (max(0.0, age_days) / half_life))
