"""The terms by which a text is found, the same on every store.

A word becomes its stem. An identifier (``order_17``, ``api.example.com``, ``v1.2``, ``userId``, ``512Mi``)
becomes a term as a whole and by its parts. Chinese, Japanese and Korean texts have no spaces and become pairs
of characters. Common words are terms of a text too, so that a quoted phrase finds them next to each other; a
query leaves them out.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final
from unicodedata import normalize

from holdfast.core.memory.stemming import stem
from holdfast.model.search import Query

WORD: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?![\w,])|\w+(?:[.\-/:@'\u2019]\w+)*")
_PART: Final = re.compile(r"[^\W_]+")
_NUMBER_OR_NOT: Final = re.compile(r"\d+|\D+")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_APOSTROPHE: Final = re.compile(r"['\u2019](?:s\b)?")
_ACCENT: Final = re.compile("[\u0300-\u036f]")
_UNSPACED: Final = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+)")
_QUOTED: Final = re.compile(r'"([^"]+)"')
_KNOWN_CHARS_MAX: Final = 32
COMMON: Final = frozenset(
    """
    a about after again all also am an and any are as at be because been before being both but by can cannot
    could did do does doing down during each every few for from further get gets got had has have having he
    her here hers him his how i if in into is it its just may me might more most must my no nor not of off on
    once only or other our ours out over own per same shall she should so some such than that the their them
    then there these they this those through to too under until up us very was we were what when where which
    while who whom whose why will with without would you your yours dont doesnt didnt isnt arent wasnt werent
    cant couldnt wont wouldnt shouldnt hasnt havent hadnt im ive id ill lets
    """.split()
)


def terms_of(text: str) -> list[str]:
    """All terms of a text, in their order. No term has a space or a quotation mark."""
    found: list[str] = []
    for word in WORD.findall(text):
        found += forms_of(word)
    return found


def query_of(text: str) -> Query:
    """The query in a text that a person typed. If it has only common words, all of them count."""
    quoted = [part for part in _QUOTED.findall(text) if terms_of(part)]
    plain = _QUOTED.sub(" ", text)
    words: list[str] = WORD.findall(plain)
    asked = [word for word in words if folded(word) not in COMMON] or ([] if quoted else words)
    terms = dict.fromkeys(term for word in asked for term in forms_of(word))
    return Query(
        tuple(terms),
        tuple(tuple(terms_of(part)) for part in quoted),
        tuple(tuple(_words(part)) for part in quoted),
    )


def holds(query: Query, text: str) -> bool:
    """Whether the text has every quoted phrase, word for word."""
    if not query.quotes:
        return True
    words = _words(text)
    return all(_has_run(words, quote) for quote in query.quotes)


def forms_of(word: str) -> Sequence[str]:
    """The terms of a word: its stem; for an identifier, the whole and its parts."""
    return _known_forms(word) if len(word) <= _KNOWN_CHARS_MAX else _forms(word)


@lru_cache(maxsize=16_384)  # texts repeat words: with the cache, a lookup takes a third of the time
def _known_forms(word: str) -> Sequence[str]:
    return tuple(_forms(word))


def _forms(word: str) -> list[str]:
    plain = folded(word)
    if plain.isascii() and plain.isalpha() and not _HUMP.search(word):
        return [stem(plain)]
    if _UNSPACED.search(plain):
        return [term for run in _UNSPACED.split(plain) if run for term in _of_unspaced(run)]
    if "," in plain:
        return [plain.replace(",", "")]  # 4,200 is 4200
    parts = [
        stem(folded(part))
        for run in _PART.findall(word)
        for hump in _HUMP.split(run)
        for part in _NUMBER_OR_NOT.findall(hump)
    ]
    return [plain] if parts in ([plain], [stem(plain)]) else [plain, *parts]


def folded(text: str) -> str:
    """A text in lower case, without accents, apostrophes and possessives, which do not distinguish words."""
    if not text.isascii():
        text = normalize("NFC", _ACCENT.sub("", normalize("NFKD", text)))
    return _APOSTROPHE.sub("", text.lower())


def _of_unspaced(run: str) -> Iterator[str]:
    if not _UNSPACED.match(run):
        yield from terms_of(run)
    elif len(run) == 1:
        yield run
    else:
        yield from (run[at : at + 2] for at in range(len(run) - 1))


def _words(text: str) -> list[str]:
    return [folded(word) for word in WORD.findall(text)]


def _has_run(words: list[str], run: tuple[str, ...]) -> bool:
    size = len(run)
    return any(tuple(words[at : at + size]) == run for at in range(len(words) - size + 1))
