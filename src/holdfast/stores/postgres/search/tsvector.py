"""Documents and queries as ``tsvector``, and the weight of each part of a query: BM25 as FTS5 has it.

It knows the limits of a ``tsvector`` and the arithmetic; it runs no statement.

A query's parts are its terms and its phrases. A part adds at most ``ceiling`` to a document's score:
documents that have only parts with a low ceiling can be skipped once enough others score higher, so a query
of one rare and five common words costs about what the rare one does.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from math import log
from typing import Final

from holdfast.model.named_tuple import NamedTuple
from holdfast.model.search import Query
from holdfast.stores.postgres.wire.nul_escape import escaped

K1: Final = 1.2
B: Final = 0.75
_IDF_MIN: Final = 1e-6
"""The weight of a word that is in half of all documents or more."""
_SAVING: Final = 4
_WORD_BYTES_MAX: Final = 2000
"""The server takes 2046; the rest is for the suffix that separates further positions of the same word."""
_WORDS_BYTES_MAX: Final = 1_000_000
_POSITION_MAX: Final = 16_382
"""One less than the highest position."""
_POSITIONS_MAX: Final = 255
_ENTRY_BYTES: Final = 8
_MORE: Final = "\x02"
"""Ends a word before the number of its further group of positions: a ``tsvector`` has 255 of each.

No term has it.
"""


def steps() -> list[float]:
    """The bounds between the ranks of a word that occurs once, twice, … up to a ``tsvector``'s maximum."""
    found, total = list[float](), 0.0
    for times in range(1, _POSITIONS_MAX + 1):
        share = 1 / times**2
        found.append((total + share / 2) / 1.64493406685)
        total += share
    return found


def word_of(term: str) -> str:
    """A term as a lexeme: one that is too long gets a hash at its end."""
    word = escaped(term)
    if len(word) * 4 <= _WORD_BYTES_MAX:
        return word
    data = word.encode()
    if len(data) <= _WORD_BYTES_MAX:
        return word
    digest = sha256(data).hexdigest()
    return data[: _WORD_BYTES_MAX - len(digest)].decode(errors="ignore") + digest


def vector_of(terms: Sequence[str]) -> str:
    """The literal of a document's ``tsvector``; words past a megabyte are left out.

    After the last position the numbers restart: adjacent words stay adjacent, and others may become so. So a
    phrase in a document is always found, and the caller checks the hits in very long ones.
    """
    places: dict[str, list[int]] = {}
    times: Counter[str] = Counter()
    size = 0
    for place, term in enumerate(terms):
        if not term:
            continue
        word = word_of(term)
        further = times[word] // _POSITIONS_MAX
        lexeme = f"{word}{_MORE}{further}" if further else word
        if lexeme not in places:
            size += len(lexeme.encode()) + _ENTRY_BYTES
            places[lexeme] = []
        round_, position = divmod(place, _POSITION_MAX)
        found = [position + 1]
        if round_ and not position:  # adjacent to the last one of the round before, too
            found.append(_POSITION_MAX + 1)
        size += 2 * len(found)
        if size > _WORDS_BYTES_MAX:
            break
        places[lexeme] += found
        times[word] += len(found)
    return " ".join(
        f"{_quoted(lexeme)}:{','.join(map(str, found))}" for lexeme, found in places.items() if found
    )


class Part(NamedTuple):
    """A term or a phrase of a query: its weight, and whether a document must have it."""

    words: tuple[str, ...]
    times: int
    is_needed: bool

    @property
    def asked(self) -> str:
        """As a ``tsquery``."""
        if len(self.words) == 1:
            return _quoted(self.words[0])
        return " <-> ".join(f"({_quoted(word)} | {_quoted(word + _MORE)}:*)" for word in self.words)


class Weighed(NamedTuple):
    """A part, its document frequency, and the most it adds to a score."""

    part: Part
    documents: int
    gain: float

    @property
    def ceiling(self) -> float:
        return self.gain * (K1 + 1)


def parts_of(query: Query) -> list[Part]:
    """The parts of a query. The first phrase counts twice, as in the query for FTS5."""
    phrases = [tuple(map(word_of, filter(None, phrase))) for phrase in query.phrases]
    phrases = [phrase for phrase in phrases if phrase]
    times = Counter([*phrases[:1], *phrases, *((word_of(term),) for term in query.terms if term)])
    return [Part(words, count, words in phrases) for words, count in times.items()]


def weighed(parts: Sequence[Part], found: Sequence[int], documents: int) -> list[Weighed]:
    """The parts that occur anywhere, the heaviest first."""
    there = [
        Weighed(part, count, part.times * _idf(count, documents))
        for part, count in zip(parts, found, strict=True)
        if count
    ]
    return sorted(there, key=lambda one: -one.gain)


def _idf(found: int, documents: int) -> float:
    if 2 * found >= documents:  # also if documents were deleted between the two counts
        return _IDF_MIN
    return max(_IDF_MIN, log((documents - found + 0.5) / (found + 0.5)))


def asked_of(parts: Sequence[Weighed]) -> str:
    """The ``tsquery`` for candidates: documents with all required parts, or with any if none is required."""
    needed = [f"({one.part.asked})" for one in parts if one.part.is_needed]
    return " & ".join(needed) if needed else " | ".join(one.part.asked for one in parts)


def first_few(parts: Sequence[Weighed], limit: int) -> int:
    """How many parts to start with: few that may suffice, if that skips most of the documents; else all."""
    everything = sum(one.documents for one in parts)
    rest = sum(one.ceiling for one in parts)
    found, told = 0, 0.0
    for place, one in enumerate(parts, start=1):
        found, told, rest = found + one.documents, told + one.ceiling, rest - one.ceiling
        if found > everything / _SAVING:
            break
        if found >= limit and told >= rest:
            return place
    return len(parts)


def enough(parts: Sequence[Weighed], score: float) -> int:
    """How many parts must be searched, so that no other document reaches this score."""
    rest = 0.0
    for place in range(len(parts), 0, -1):
        rest += parts[place - 1].ceiling
        if rest >= score:
            return place
    return 0


def norm(documents: int, terms: int) -> tuple[float, float]:
    """The two numbers of BM25's length norm: a constant, and a factor for the terms of the document."""
    mean = terms / documents if terms else 1.0
    return K1 * (1 - B), K1 * B / mean


def _quoted(word: str) -> str:
    doubled = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"
