"""Finding 100,000 documents in PostgreSQL, beside bare SQL over the same rows: ``ts_rank`` for words, pgvector for meaning.

Bare is what one would write by hand: an OR of the words ordered by ``ts_rank``, which reads every match and knows nothing of how rare a word
is; and an ORDER BY of the distance. Words are as common as words are once the commonest are left out.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from tests.support.postgres.server import Server

from bench.measuring import Figure
from holdfast.model.search import EVERYWHERE, FACTS, Document, Query
from holdfast.stores.port import IndexPort
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.search import create
from holdfast.stores.url import place_of

DOCUMENTS = 100_000
BATCH = 250
WORDS = 30_000
DIMENSIONS = 256
QUERIES = 60
LIMIT = 50
ROUNDS = 3
_WORDS_BARE = (
    "SELECT key, version, ts_rank(words, %(q)s::tsquery) AS score, at, uses, importance FROM holdfast.search_facts "
    "WHERE words @@ %(q)s::tsquery ORDER BY score DESC LIMIT %(limit)s"
)
_NEAR_BARE = (
    "SELECT document, vector <=> %(q)s::halfvec AS distance FROM holdfast.search_facts_vectors "
    "ORDER BY distance LIMIT %(limit)s"
)
Matrix = np.ndarray[Any, np.dtype[np.int8]]


def figures(place: Path) -> Iterator[Figure]:  # noqa: ARG001 - the server runs as another user, who may not look in there
    """With pgvector, then with vectors compared in this process."""
    chance = random.Random(1)
    vectors: Matrix = np.random.default_rng(1).integers(-127, 128, (DOCUMENTS, DIMENSIONS), np.int8)
    documents = list(_documents(chance, vectors))
    server = Server.started(within="/var/tmp", settings={})
    try:
        with closing(psycopg.connect(server.url(), autocommit=True)) as bare:
            with closing(_opened(server.url())) as store:
                index = _filled(store, documents)
                yield Figure(
                    "PostgreSQL: indexing a document", index[1], None, "µs", f"in batches of {BATCH}"
                )
                bare.execute("VACUUM ANALYZE")
                yield from _by_words(index[0], bare, documents, chance)
                yield _by_meaning(index[0], bare, vectors, chance)
            bare.execute("DROP SCHEMA holdfast CASCADE")
            with pytest.MonkeyPatch.context() as patch, closing(_opened(server.url())) as store:
                patch.setattr(create, "EXTENSION", "of_nobody")
                wordless = [one._replace(terms=()) for one in documents]
                yield _in_process(_filled(store, wordless)[0], vectors, chance)
    finally:
        server.remove()


def _documents(chance: random.Random, vectors: Matrix) -> Iterator[Document]:
    vocabulary = [f"w{number}" for number in range(WORDS)]
    weights = [1 / (number + 30) for number in range(WORDS)]
    for place, vector in enumerate(vectors):
        terms = tuple(chance.choices(vocabulary, weights, k=chance.randint(6, 40)))
        yield Document(f"users/{place % 97}\x1f{place:08}", "1", terms, vector.tobytes(), "m", 1.0)


def _opened(url: str) -> PostgresStore:
    place = place_of(url)
    return PostgresStore(place.name, place.password)


def _filled(store: PostgresStore, documents: Sequence[Document]) -> tuple[IndexPort, float]:
    index = store.find_index()
    assert index is not None
    began = time.perf_counter()
    for first in range(0, DOCUMENTS, BATCH):
        index.put(FACTS, documents[first : first + BATCH])
    return index, (time.perf_counter() - began) / DOCUMENTS * 1e6


def _by_words(
    index: IndexPort, bare: psycopg.Connection[Any], documents: Sequence[Document], chance: random.Random
) -> Iterator[Figure]:
    """Queries of some words of one document each, as one asks for something that is there; and of common words alone."""
    some = [tuple(chance.sample(chance.choice(documents).terms, 5)) for _ in range(QUERIES)]
    common = [tuple(f"w{number}" for number in chance.sample(range(40), 5)) for _ in range(QUERIES)]
    for what, asked in (("five words of a document", some), ("five of the commonest words", common)):
        ours, plain = _ms(
            [
                lambda terms: index.find_words(FACTS, Query(terms), EVERYWHERE, limit=LIMIT),
                lambda terms: bare.execute(
                    _WORDS_BARE, {"q": " | ".join(terms), "limit": LIMIT}, prepare=True
                ).fetchall(),
            ],
            asked,
        )
        facts = f"{DOCUMENTS:,} documents, p50: BM25 {ours:.1f} ms, ts_rank {plain:.1f} ms"
        yield Figure(f"PostgreSQL: {what} / bare ts_rank", ours / plain, 2.0, "×", facts)


def _by_meaning(
    index: IndexPort, bare: psycopg.Connection[Any], vectors: Matrix, chance: random.Random
) -> Figure:
    asked = [vectors[chance.randrange(DOCUMENTS)] for _ in range(QUERIES)]
    ours, plain = _ms(
        [
            lambda one: index.find_near(FACTS, one.tobytes(), "m", EVERYWHERE, limit=LIMIT),
            lambda one: bare.execute(
                _NEAR_BARE, {"q": str(one.tolist()), "limit": LIMIT}, prepare=True
            ).fetchall(),
        ],
        asked,
    )
    facts = f"{DOCUMENTS:,} × {DIMENSIONS}, p50: {ours:.1f} ms, bare {plain:.1f} ms"
    return Figure("PostgreSQL: nearest by pgvector / bare ORDER BY", ours / plain, 2.0, "×", facts)


def _in_process(index: IndexPort, vectors: Matrix, chance: random.Random) -> Figure:
    rows = vectors.astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    asked = [vectors[chance.randrange(DOCUMENTS)] for _ in range(QUERIES)]
    began = time.perf_counter()
    index.find_near(FACTS, asked[0].tobytes(), "m", EVERYWHERE, limit=LIMIT)
    first = time.perf_counter() - began
    ours, plain = _ms(
        [
            lambda one: index.find_near(FACTS, one.tobytes(), "m", EVERYWHERE, limit=LIMIT),
            lambda one: np.argpartition(-(rows @ one.astype(np.float32)), LIMIT)[:LIMIT],
        ],
        asked,
    )
    facts = f"p50: {ours:.1f} ms, bare scan {plain:.1f} ms; the first one reads all: {first:.1f} s"
    return Figure("PostgreSQL: nearest without pgvector / bare scan", ours / plain, None, "×", facts)


def _ms(works: Sequence[Callable[[Any], object]], asked: Sequence[Any]) -> list[float]:
    """The median over all questions, in ms, each asked of both in turn."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for one in asked:
            for work, taken in zip(works, times, strict=True):
                began = time.perf_counter()
                work(one)
                taken.append(time.perf_counter() - began)
    return [statistics.median(taken) * 1e3 for taken in times]
