"""Searches by words and by meaning, with the same ranking for facts and for events on every store.

Asks the store's index; without one, scans everything within the bounds. In both cases the candidates are the
best by BM25 and the nearest by cosine. Their scores are fused, and a candidate unused for long gets a lower
weight.
"""

from collections.abc import Iterable, Sequence
from math import sqrt
from operator import mul
from typing import TYPE_CHECKING, Final

from holdfast.core.memory.bm25 import rank
from holdfast.core.memory.fusion import NEAR_MIN, decay, fuse
from holdfast.core.memory.terms import query_of, terms_of
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.search import Document, Match, Query, Within
from holdfast.stores.port import IndexPort

if TYPE_CHECKING:
    from holdfast.embedding.embedders import Embedder

CANDIDATES: Final = 100
"""How many candidates are taken by words, and how many by meaning."""
_DAY_S: Final = 86_400


class Ranked(NamedTuple):
    """A search result: its key, and the version that it had when it was indexed."""

    key: str
    version: str
    score: float


class Texts(NamedTuple):
    """A searchable text, before it is made into a document."""

    key: str
    version: str
    text: str
    at: float = 0.0
    uses: int = 0
    importance: float = 0.5
    tags: tuple[str, ...] = ()


def documents(texts: Sequence[Texts], embedder: "Embedder | None") -> list[Document]:
    """The documents that an index stores for these texts."""
    vectors = vectors_of([one.text for one in texts], embedder)
    model = embedder.model if embedder is not None else ""
    return [
        Document(
            one.key,
            one.version,
            tuple(terms_of(one.text)),
            vector,
            model if vector else "",
            one.at,
            one.uses,
            one.importance,
            one.tags,
        )
        for one, vector in zip(texts, vectors, strict=True)
    ]


def vectors_of(texts: Sequence[str], embedder: "Embedder | None") -> list[bytes]:
    """The quantised vectors of the texts; empty ones without an embedder."""
    if embedder is None:
        return [b""] * len(texts)
    from holdfast.embedding.embedders import embed, quantise

    return [quantise(row) for row in embed(embedder, texts)]


def candidates(
    index: "IndexPort | Scanned",
    space: str,
    text: str,
    within: Within,
    *,
    embedder: "Embedder | None",
    limit: int,
) -> list[str]:
    """The keys of what is nearest to a text: by meaning, or by words where there is no embedder."""
    if embedder is None:
        matches = index.find_words(space, Query(query_of(text).terms), within, limit=limit)
    else:
        (vector,) = vectors_of([text], embedder)
        matches = index.find_near(space, vector, embedder.model, within, limit=limit)
    return [*dict.fromkeys(match.key for match in matches)]


def cosine_of(one: str, other: str, embedder: "Embedder | None") -> float | None:
    """The cosine of two texts; None without an embedder."""
    if embedder is None:
        return None
    first, second = vectors_of([one, other], embedder)
    return _cosine(_signed(first), _signed(second))


def find(
    index: "IndexPort | Scanned",
    space: str,
    text: str,
    within: Within,
    *,
    embedder: "Embedder | None",
    now: float,
) -> list[Ranked]:
    """The results for a query text, best first."""
    query = query_of(text)
    words = index.find_words(space, query, within, limit=CANDIDATES)
    near: list[Match] = []
    if embedder is not None:
        (vector,) = vectors_of([text], embedder)
        # The matches by words get a cosine too, so that their two scores can be fused.
        also = [match.key for match in words]
        near = index.find_near(space, vector, embedder.model, within, limit=CANDIDATES, also=also)
    by_words = {match[:2]: match.score for match in words}
    # A quoted phrase must occur in the text, so a match by meaning alone counts only for queries without
    # quotes.
    near = [
        match for match in near if match[:2] in by_words or (match.score >= NEAR_MIN and not query.phrases)
    ]
    fused = fuse(by_words, {match[:2]: match.score for match in near})
    found = {match[:2]: match for match in (*words, *near)}
    ranked = [Ranked(*identity, score * _weight(found[identity], now)) for identity, score in fused.items()]
    return sorted(ranked, key=lambda one: (-one.score, -found[one[:2]].at, one.key))


def _weight(match: Match, now: float) -> float:
    return decay(max(0.0, now - match.at) / _DAY_S, match.uses, match.importance)


class Scanned:
    """Answers like an index by scanning the texts themselves, for stores without one."""

    def __init__(
        self, texts: Iterable[Texts], embedder: "Embedder | None", vectors: Sequence[bytes] | None = None
    ) -> None:
        """``vectors``: those of the texts, where the caller has them already."""
        self._texts = [*texts]
        self._vectors = vectors or vectors_of([one.text for one in self._texts], embedder)

    def find_words(self, space: str, query: Query, within: Within, *, limit: int) -> list[Match]:  # noqa: ARG002
        """As ``IndexPort.find_words``."""
        found = [one for one in self._texts if _is_within(one, within)]
        ranked = rank(query, [one.text for one in found])
        return [_match(found[place], score) for score, place in ranked[:limit]]

    def find_near(
        self,
        space: str,  # noqa: ARG002
        vector: bytes,
        model: str,  # noqa: ARG002
        within: Within,
        *,
        limit: int,
        also: Sequence[str] = (),
    ) -> list[Match]:
        """As ``IndexPort.find_near``."""
        wanted = _signed(vector)
        found = [
            _match(one, _cosine(wanted, _signed(own)))
            for one, own in zip(self._texts, self._vectors, strict=True)
            if own and _is_within(one, within)
        ]
        found.sort(key=lambda match: -match.score)
        return [*found[:limit], *(match for match in found[limit:] if match.key in also)]


def _is_within(one: Texts, within: Within) -> bool:
    return (not within.prefixes or one.key.startswith(within.prefixes)) and {*within.tags} <= {*one.tags}


def _match(one: Texts, score: float) -> Match:
    return Match(one.key, one.version, score, one.at, one.uses, one.importance)


def _signed(vector: bytes) -> Sequence[int]:
    return memoryview(vector).cast("b")


def _cosine(one: Sequence[int], other: Sequence[int]) -> float:
    lengths = sqrt(sum(map(mul, one, one)) * sum(map(mul, other, other)))
    return sum(map(mul, one, other)) / lengths if lengths else 0.0
