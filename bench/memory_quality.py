"""How well facts are found again, and told apart: over the facts, queries and pairs of tests/behaviour/memory/data.

Every query is asked of all facts of all domains. What is tuned is tuned on the part ``tuning``; ``held_back`` is for the report.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bench.measuring import Figure
from holdfast.core.memory.bm25 import rank
from holdfast.core.memory.dedupe import compare
from holdfast.core.memory.fusion import fuse
from holdfast.core.memory.terms import query_of
from holdfast.embedding.embedders import Embedder, embed, find_embedder
from holdfast.model.search import Query

DATA = Path(__file__).parents[1] / "tests" / "behaviour" / "memory" / "data"
PARTS = ("tuning", "held_back")
CANDIDATES = 50
"""As many as a store hands over by words, and as many by meaning."""
_RRF = 60

Scores = dict[str, float]
Ranker = Callable[[str], Scores]


class Asked(NamedTuple):
    """A query, the facts that answer it, and by what they are to be found."""

    ask: str
    gold: tuple[str, ...]
    by: str


class Pair(NamedTuple):
    old: str
    new: str
    verdict: str


class Quality(NamedTuple):
    """Of the queries, how many have an answer in the first place, among the first five, and the mean of 1/place."""

    first: float
    among_five: float
    mrr: float


@cache
def facts() -> dict[str, str]:
    return {key: text for domain in _domains() for key, text in domain["facts"].items()}


@cache
def queries(part: str) -> tuple[Asked, ...]:
    return tuple(
        Asked(one["ask"], tuple(one["gold"]), one["by"])
        for domain in _domains()
        if domain["part"] == part
        for one in domain["queries"]
    )


@cache
def pairs(part: str) -> tuple[Pair, ...]:
    told = json.loads((DATA / "pairs.json").read_text(encoding="utf-8"))["pairs"]
    return tuple(Pair(one["old"], one["new"], one["verdict"]) for one in told if one["part"] == part)


def _domains() -> list[dict[str, Any]]:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(DATA.glob("*.json"))]
    return [one for one in found if "facts" in one]


# -- rankers ------------------------------------------------------------------------------------------------------


def by_words(query: str) -> Scores:
    return _bm25(query_of(query))


def by_meaning(embedder: Embedder) -> Ranker:
    keys = [*facts()]
    rows = embed(embedder, [*facts().values()])

    def ranked(query: str) -> Scores:
        return dict(zip(keys, (rows @ embed(embedder, [query])[0]).tolist(), strict=True))

    return ranked


def fused(embedder: Embedder) -> Ranker:
    meaning = by_meaning(embedder)
    return lambda query: fuse(_best(by_words(query)), _best(meaning(query)))


def by_places(embedder: Embedder) -> Ranker:
    """Reciprocal rank fusion, to compare with."""
    meaning = by_meaning(embedder)

    def ranked(query: str) -> Scores:
        scores = dict.fromkeys(facts(), 0.0)
        for found in (_best(by_words(query)), _best(meaning(query))):
            for place, key in enumerate(_in_order(found), 1):
                scores[key] += 1 / (_RRF + place)
        return scores

    return ranked


def _bm25(query: Query) -> Scores:
    keys = [*facts()]
    return {keys[at]: score for score, at in rank(query, [*facts().values()])}


def _best(scores: Scores) -> Scores:
    return {key: scores[key] for key in _in_order(scores)[:CANDIDATES]}


def _in_order(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda key: (-scores[key], key))


def quality(ranker: Ranker, asked: Sequence[Asked]) -> Quality:
    places = []
    for one in asked:
        order = {key: place for place, key in enumerate(_in_order(ranker(one.ask)), 1)}
        places.append(min((order[key] for key in one.gold if key in order), default=0))
    count = len(places)
    return Quality(
        sum(place == 1 for place in places) / count,
        sum(1 <= place <= 5 for place in places) / count,
        sum(1 / place for place in places if place) / count,
    )


# -- telling apart ------------------------------------------------------------------------------------------------


def verdicts(embedder: Embedder | None, told: Sequence[Pair]) -> list[tuple[Pair, str]]:
    cosines: list[float | None] = [None] * len(told)
    if embedder is not None:
        products = embed(embedder, [one.new for one in told]) * embed(embedder, [one.old for one in told])
        cosines = products.sum(axis=1).tolist()
    return [(one, compare(one.new, one.old, likeness)) for one, likeness in zip(told, cosines, strict=True)]


def precision_and_recall(found: Sequence[tuple[Pair, str]], verdict: str) -> tuple[float, float]:
    right = sum(pair.verdict == given == verdict for pair, given in found)
    given = sum(given == verdict for _, given in found)
    wanted = sum(pair.verdict == verdict for pair, _ in found)
    return (right / given if given else 1.0), right / wanted


def figures(_place: Path) -> Iterator[Figure]:
    """For each part: the rankers beside each other, and how facts are told apart."""
    embedder = find_embedder("table")
    assert embedder is not None
    rankers: dict[str, Ranker] = {
        "words alone (BM25)": by_words,
        "meaning alone": by_meaning(embedder),
        "fused by score": fused(embedder),
        "fused by place (RRF)": by_places(embedder),
    }
    for part in PARTS:
        asked = queries(part)
        words = quality(by_words, asked)
        for name, ranker in rankers.items():
            first, among_five, mrr = quality(ranker, asked)
            bar = words.mrr if name == "fused by score" else None
            told = (
                f"recall@1 {first:.3f}, recall@5 {among_five:.3f}; {len(asked)} queries, {len(facts())} facts"
            )
            yield Figure(f"{part}: {name}", mrr, bar, "MRR", told, at_least=True)
        found = verdicts(embedder, pairs(part))
        for verdict, bar in (("same", 1.0), ("supersedes", 1.0), ("apart", None)):
            precision, recall = precision_and_recall(found, verdict)
            told = f"recall {recall:.2f}; {len(found)} pairs"
            yield Figure(f"{part}: told {verdict}", precision, bar, "precision", told, at_least=True)
