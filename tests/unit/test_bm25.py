"""Ranking by words: what counts as the same word, which text comes first, and the part that is shown."""

import pytest

from holdfast.core.memory.bm25 import excerpt, rank, texts_in
from holdfast.core.memory.terms import query_of

TEXTS = [
    "The deployment failed because the database was locked",
    "Deploys happen on Tuesdays, and deploying takes an hour",
    "api.example.com answered 429 for order_17",
    "The cat sat on the mat",
]


def best(query: str) -> list[int]:
    return [place for _, place in rank(query_of(query), TEXTS)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("databases", [0]),
        ("deploying", [1]),
        ("order_17", [2]),
        ("example", [2]),
        ("429 orders", [2]),
        ('"the database"', [0]),
        ('"database the"', []),
        ("dogs", []),
        ("", []),
    ],
)
def test_what_a_query_finds(query: str, found: list[int]) -> None:
    """Endings do not matter, identifiers count whole and by their parts, quoted words stand beside each other."""
    assert best(query) == found


def test_common_words_count_only_alone() -> None:
    """A question is found by what it is about; who asks for common words only gets them."""
    assert best("what is the cat") == [3]
    assert set(best("on the")) == {0, 1, 3}


def test_rare_words_and_short_texts_come_first() -> None:
    """A word that few texts have says more than one that all have; a long text has it by chance."""
    texts = ["alpha beta", "alpha gamma", "alpha " + "filler " * 50 + "gamma"]
    assert [place for _, place in rank(query_of("alpha gamma"), texts)] == [1, 2, 0]


def test_of_equal_texts_the_later_comes_first() -> None:
    """Candidates are given from the oldest to the newest."""
    assert [place for _, place in rank(query_of("same"), ["same text", "same text"])] == [1, 0]


def test_an_excerpt_shows_the_word_that_was_asked_for() -> None:
    """On one line, with a sign where something was left out."""
    text = "x " * 200 + "the\nneedle in it" + " y" * 200
    shown = excerpt(query_of("needles"), text)
    assert "the needle in it" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) < 300
    assert excerpt(query_of("a"), "short") == "short"


def test_texts_are_taken_out_of_data_in_order_and_bounded() -> None:
    """Names of fields and truth values say nothing; numbers do."""
    data = {"a": ["one", 2, {"b": "three"}], "c": True, "d": None, "e": 4.5}
    assert list(texts_in(data, chars_max=100)) == ["one", "2", "three", "4.5"]
    assert list(texts_in(data, chars_max=5)) == ["one", "2", "t"]
