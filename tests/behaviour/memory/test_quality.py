"""How well facts are found and told apart on our own data, on the part that nothing was tuned on; and that it would be noticed."""

from collections.abc import Callable

import pytest
from bench import memory_quality as quality
from bench.memory_quality import PARTS, Scores

from holdfast.core.memory.terms import query_of, terms_of
from holdfast.embedding.embedders import embed
from holdfast.embedding.table_embedder import Table

TABLE = Table()
HELD_BACK = quality.queries("held_back")


def test_the_data_is_large_varied_and_consistent() -> None:
    """At least 300 facts, 150 queries and 60 pairs, half of them changes of a value; a third is held back."""
    asked = {part: quality.queries(part) for part in PARTS}
    assert len(quality.facts()) >= 300
    assert len(set(quality.facts().values())) == len(quality.facts())
    assert sum(map(len, asked.values())) >= 150
    assert 0.3 <= len(asked["held_back"]) / sum(map(len, asked.values())) <= 0.4
    for part in PARTS:
        assert {"words", "forms", "synonyms", "identifier", "phrase", "meaning"} - {"words"} <= {
            q.by for q in asked[part]
        }
        assert all(set(one.gold) <= set(quality.facts()) for one in asked[part])
    told = [pair for part in PARTS for pair in quality.pairs(part)]
    assert len([pair for pair in told if pair.verdict == "supersedes"]) >= 30
    assert len([pair for pair in told if pair.verdict != "supersedes"]) >= 30
    assert len(set(told)) == len(told)


@pytest.mark.slow
def test_words_and_meaning_together_beat_either_and_their_places() -> None:
    """On the held-back part: more found than by words alone, and by reciprocal rank fusion; first places, than by meaning alone."""
    words = quality.quality(quality.by_words, HELD_BACK)
    meaning = quality.quality(quality.by_meaning(TABLE), HELD_BACK)
    fused = quality.quality(quality.fused(TABLE), HELD_BACK)
    places = quality.quality(quality.by_places(TABLE), HELD_BACK)
    assert fused.among_five >= words.among_five + 0.1
    assert fused.mrr >= words.mrr + 0.08
    assert fused.first >= meaning.first + 0.03
    assert fused.mrr >= places.mrr
    assert fused.among_five >= 0.78
    assert fused.mrr >= 0.65


def test_identifiers_are_found_first() -> None:
    """By words, and not lost in the fusion: meaning knows nothing of them."""
    asked = [one for one in HELD_BACK if one.by == "identifier"]
    assert len(asked) >= 8
    assert quality.quality(quality.by_words, asked).first == 1
    assert quality.quality(quality.fused(TABLE), asked).first == 1


def _all_words(query: str) -> Scores:
    """Planted: every word must match."""
    wanted = set(query_of(query).terms)
    return {
        key: n for key, n in quality.by_words(query).items() if wanted <= set(terms_of(quality.facts()[key]))
    }


def _unstemmed(query: str) -> Scores:
    """Planted: only words that stand there letter by letter."""
    texts = quality.facts()
    words = {word.strip("?,.") for word in query.lower().split()}
    found = quality.by_words(query)
    return {
        key: n
        for key, n in found.items()
        if words & {word.strip("?,.;") for word in texts[key].lower().split()}
    }


@pytest.mark.slow
@pytest.mark.parametrize("broken", [_all_words, _unstemmed])
def test_a_broken_search_by_words_would_be_noticed(broken: Callable[[str], Scores]) -> None:
    """AND for OR, or no stems, fall below the floor that the real one stands on."""
    assert quality.quality(quality.by_words, HELD_BACK).among_five >= 0.62
    assert quality.quality(broken, HELD_BACK).among_five < 0.6


def test_facts_are_told_apart() -> None:
    """On the held-back part: nothing is merged or replaced that should not be, most changes are seen, and most repeats."""
    found = quality.verdicts(TABLE, quality.pairs("held_back"))
    assert quality.precision_and_recall(found, "same")[0] == 1
    assert quality.precision_and_recall(found, "supersedes")[0] == 1
    assert quality.precision_and_recall(found, "same")[1] >= 0.65
    assert quality.precision_and_recall(found, "supersedes")[1] >= 0.85
    assert quality.precision_and_recall(found, "apart")[1] == 1


def test_without_vectors_facts_are_told_apart_as_well() -> None:
    """Words decide; nothing is merged wrongly where there is no embedder."""
    for part in PARTS:
        found = quality.verdicts(None, quality.pairs(part))
        assert quality.precision_and_recall(found, "same")[0] == 1
        assert quality.precision_and_recall(found, "supersedes")[0] == 1


@pytest.mark.parametrize("part", PARTS)
def test_likeness_alone_would_be_noticed(part: str) -> None:
    """Planted: same at a cosine of 0.92 and nothing else merges every third pair wrongly, TTL 300 with TTL 30 among them."""
    rows = [embed(TABLE, [pair.new, pair.old]) for pair in quality.pairs(part)]
    merged = [
        pair.verdict
        for pair, (new, old) in zip(quality.pairs(part), rows, strict=True)
        if float(new @ old) >= 0.92
    ]
    assert sum(verdict != "same" for verdict in merged) / len(merged) > 0.33
