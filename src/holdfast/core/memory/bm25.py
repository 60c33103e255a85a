"""Ranks texts by words: BM25 over the candidates, the same on every store.

Any word of the query may match, and rare words count more. Words in quotes must be next to each other.
``terms`` decides what a word is. The module reads texts only, and knows neither facts nor events.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import log
from typing import Final

from holdfast.core.memory.terms import WORD, forms_of, holds, terms_of
from holdfast.model.search import Query

_K1: Final = 1.2
_B: Final = 0.75
_AROUND_CHARS: Final = 80


def rank(query: Query, texts: Sequence[str]) -> list[tuple[float, int]]:
    """The scores and indexes of the texts that match, best first; of equal ones, the later first."""
    wanted = {*query.terms, *(term for phrase in query.phrases for term in phrase)}
    if not wanted:
        return []
    counts: list[Counter[str]] = []
    lengths: list[int] = []
    for text in texts:
        found = terms_of(text)
        lengths.append(len(found))
        fits = holds(query, text)
        counts.append(Counter(term for term in found if term in wanted) if fits else Counter())
    spread = Counter(term for counted in counts for term in counted)
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    weights = {term: _rarity(n, len(texts)) for term, n in spread.items()}
    scored = []
    for place, (counted, length) in enumerate(zip(counts, lengths, strict=True)):
        if counted:
            norm = _K1 * (1 - _B + _B * length / (mean or 1.0))
            score = sum(weights[term] * n * (_K1 + 1) / (n + norm) for term, n in counted.items())
            scored.append((score, place))
    return sorted(scored, reverse=True)


def excerpt(query: Query, text: str) -> str:
    """The part of a text around the first word of the query, on one line."""
    wanted = {*query.terms, *(term for phrase in query.phrases for term in phrase)}
    at = next((m.start() for m in WORD.finditer(text) if wanted & set(forms_of(m.group()))), 0)
    begin, end = max(0, at - _AROUND_CHARS), at + 2 * _AROUND_CHARS
    cut = " ".join(text[begin:end].split())
    return f"{'…' if begin else ''}{cut}{'…' if end < len(text) else ''}"


def texts_in(value: object, *, chars_max: int) -> Iterator[str]:
    """The texts and numbers in data, in their order, up to so many characters in total."""
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


def _rarity(holding: int, count: int) -> float:
    return log(1 + (count - holding + 0.5) / (holding + 0.5))
