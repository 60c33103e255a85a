"""Laws of the ranking: scores in their bounds, better evidence never worse, old never gone."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.fusion import HALF_LIFE_DAYS, decay, fuse

KEYS = st.integers(0, 12)
BM25 = st.dictionaries(KEYS, st.floats(0, 40), max_size=10)
COSINE = st.dictionaries(KEYS, st.floats(-1, 1), max_size=10)
DAYS = st.floats(0, 10_000)
USES = st.integers(0, 10_000)
SHARE = st.floats(0, 1)


@given(BM25, COSINE)
def test_every_candidate_has_a_score_from_0_to_1(bm25: dict[int, float], cosine: dict[int, float]) -> None:
    """The union of both, whatever is missing, equal, zero or negative."""
    scores = fuse(bm25, cosine)
    assert scores.keys() == bm25.keys() | cosine.keys()
    assert all(0 <= score <= 1 for score in scores.values())


@given(BM25, COSINE)
def test_better_in_both_is_never_below(bm25: dict[int, float], cosine: dict[int, float]) -> None:
    """Who has no fewer words and no less meaning comes no later. Planted: with ``1 - by_meaning``, this fails."""
    scores = fuse(bm25, cosine)
    both = bm25.keys() & cosine.keys()
    for one in both:
        for other in both:
            if bm25[one] >= bm25[other] and cosine[one] >= cosine[other]:
                assert scores[one] >= scores[other]


def test_the_formula() -> None:
    """Half of bm25/max, and half of the cosine between the least and the greatest; what is missing counts 0."""
    scores = fuse({"a": 4.0, "b": 2.0}, {"b": 0.9, "c": 0.5, "d": 0.1})
    assert {key: round(score, 9) for key, score in scores.items()} == {
        "a": 0.5,
        "b": 0.75,
        "c": 0.25,
        "d": 0.0,
    }
    assert fuse({}, {"a": 0.3}) == {"a": 0.5}
    assert fuse({"a": 2.0}, {}) == {"a": 0.5}
    assert fuse({}, {"a": 0.8, "b": 0.79}) == {"a": 0.5, "b": 0.5 * (0.79 - 0.25) / (0.8 - 0.25)}
    assert fuse({"a": 0.0}, {"a": -0.2, "b": -0.2}) == {"a": 0.0, "b": 0.0}


@given(DAYS, DAYS, USES, USES, SHARE, SHARE)
def test_what_decays_and_how_far(
    days: float, more_days: float, uses: int, more_uses: int, importance: float, more_importance: float
) -> None:
    """Never more for older, never less for more use or importance, never below the floor. Planted: without it, this fails."""
    base = decay(days, uses, importance)
    assert 0.2 <= base <= 1
    assert decay(days + more_days, uses, importance) <= base
    assert decay(days, uses + more_uses, importance) >= base
    assert decay(days, uses, max(importance, more_importance)) >= base - 1e-12
    assert base >= 0.2 + 0.3 * importance - 1e-12


def test_the_half_life() -> None:
    """In 69 days half of what can go is gone; one use doubles the time. What was of use just now, or later, counts in full."""
    assert HALF_LIFE_DAYS == 69
    assert decay(69, 0, 0.0) == 0.2 + 0.8 / 2
    assert decay(138, 1, 0.0) == decay(69, 0, 0.0)
    assert decay(0, 0, 0.0) == decay(-5, 3, 1.0) == 1
