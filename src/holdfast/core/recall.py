"""Ranking texts by words: BM25 over candidates, the same on every store.

Any of the words may match, rare ones count more. Words are stemmed lightly, and common ones left out; what looks like an
identifier (``order_17``, ``api.example.com``, ``v1.2``) counts as a whole and by its parts; in quotes, words must stand
beside each other. It looks at texts only, and knows neither facts nor events.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import Final, NamedTuple

_K1: Final = 1.2
_B: Final = 0.75
_WORD: Final = re.compile(r"\w+(?:[.\-/:@]\w+)*")
_PART: Final = re.compile(r"[^\W_]+")
_QUOTED: Final = re.compile(r'"([^"]+)"')
_STOP: Final = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "can",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "me",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "she",
        "so",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_AROUND_CHARS: Final = 80


class Query(NamedTuple):
    """What is asked for: single terms, and runs of terms that must stand beside each other."""

    terms: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...] = ()


def query_of(text: str) -> Query:
    """The query in a text that somebody typed; made of common words alone, all of them count."""
    phrases = tuple(
        found for quoted in _QUOTED.findall(text) if (found := tuple(_terms(quoted, keeps_common=True)))
    )
    plain = _QUOTED.sub(" ", text)
    terms = list(_terms(plain)) or ([] if phrases else list(_terms(plain, keeps_common=True)))
    return Query(tuple(dict.fromkeys(terms)), phrases)


def rank(query: Query, texts: Sequence[str]) -> list[tuple[float, int]]:
    """The texts that match, best first, each as its score and its place; of equal ones, the later first."""
    wanted = {*query.terms, *(term for phrase in query.phrases for term in phrase)}
    if not wanted:
        return []
    counts: list[Counter[str]] = []
    lengths: list[int] = []
    for text in texts:
        found = list(_terms(text, keeps_common=True))
        lengths.append(len(found))
        fits = all(_has_phrase(found, phrase) for phrase in query.phrases)
        counts.append(Counter(term for term in found if term in wanted) if fits else Counter())
    spread = Counter(term for counted in counts for term in counted)
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    weights = {term: log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for term, n in spread.items()}
    scored = []
    for place, (counted, length) in enumerate(zip(counts, lengths, strict=True)):
        if counted:
            norm = _K1 * (1 - _B + _B * length / (mean or 1.0))
            score = sum(weights[term] * n * (_K1 + 1) / (n + norm) for term, n in counted.items())
            scored.append((score, place))
    return sorted(scored, reverse=True)


def excerpt(query: Query, text: str) -> str:
    """The part of a text around the first word that was asked for, on one line."""
    wanted = {*query.terms, *(term for phrase in query.phrases for term in phrase)}
    at = next((m.start() for m in _WORD.finditer(text) if wanted & set(_forms(m.group()))), 0)
    begin, end = max(0, at - _AROUND_CHARS), at + 2 * _AROUND_CHARS
    cut = " ".join(text[begin:end].split())
    return f"{'…' if begin else ''}{cut}{'…' if end < len(text) else ''}"


def texts_in(value: object, *, chars_max: int) -> Iterator[str]:
    """The texts and numbers in data, in their order, up to so many characters altogether."""
    left = chars_max
    todo: list[object] = [value]
    while todo and left > 0:
        part = todo.pop()
        if isinstance(part, dict):
            todo += [*part.values()][::-1]
        elif isinstance(part, list):
            todo += part[::-1]
        elif isinstance(part, str) or (isinstance(part, (int, float)) and not isinstance(part, bool)):
            text = str(part)[:left]
            left -= len(text)
            yield text


def _terms(text: str, *, keeps_common: bool = False) -> Iterator[str]:
    for match in _WORD.finditer(text):
        for form in _forms(match.group()):
            if keeps_common or form not in _STOP:
                yield form


def _forms(word: str) -> Iterable[str]:
    """A word as it counts: stemmed; something like an identifier as a whole, and by its parts."""
    lower = word.lower()
    if lower.isalpha():
        return (_stem(lower),)
    parts = [_stem(part) for part in _PART.findall(lower)]
    return (lower,) if parts == [lower] else (lower, *parts)


def _stem(word: str) -> str:
    """The word without the commonest endings of English; short words stay as they are."""
    if not word.isascii() or len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "edly", "ed", "es", "s", "ly"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and not (ending == "s" and rest.endswith(("s", "u", "i"))):
            if ending in {"ing", "ed", "edly"} and not re.search("[aeiouy]", rest):
                return word
            return (
                rest[:-1]
                if len(rest) > 3 and (rest[-1] == rest[-2] and rest[-1] not in "lsz")
                else _bare(rest)
            )
    return _bare(word)


def _bare(word: str) -> str:
    return word.removesuffix("e") if len(word) > 4 else word


def _has_phrase(terms: Sequence[str], phrase: tuple[str, ...]) -> bool:
    size = len(phrase)
    return any(tuple(terms[at : at + size]) == phrase for at in range(len(terms) - size + 1))
