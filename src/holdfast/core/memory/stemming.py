"""The stem of an English word by Porter's algorithm of 1980: *connected* and *connection* have the same stem.

It takes lower-case ASCII words only. It agrees with the ``porter`` tokenizer of SQLite's FTS5, so the index
there and the ranking here count the same words.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Final

_VOWELS: Final = frozenset("aeiou")
_CHARS_MIN: Final = 3
_SECOND: Final = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "logi": "log",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
}
_THIRD: Final = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
_FOURTH: Final[dict[str, str]] = dict.fromkeys(
    "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split(),
    "",
)


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """The stem of a lower-case word."""
    if len(word) < _CHARS_MIN:
        return word
    word = _without_past(_without_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = f"{word[:-1]}i"
    word = _exchanged(word, _SECOND, 0)
    word = _exchanged(word, _THIRD, 0)
    word = _exchanged(word, _FOURTH, 1)
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _ends_cvc(rest)):
            word = rest
    if word.endswith("ll") and _measure(word[:-1]) > 1:
        word = word[:-1]
    return word


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word.removesuffix(ending)
        if rest != word and _has_vowel(rest):
            return _mended(rest)
    return word


def _mended(rest: str) -> str:
    """The word as it was before the ending was added: hop(p)ing, hop(e)d."""
    if rest.endswith(("at", "bl", "iz")):
        return f"{rest}e"
    if (
        len(rest) > 1
        and rest[-1] == rest[-2]
        and rest[-1] not in "lsz"
        and _is_consonant(rest, len(rest) - 1)
    ):
        return rest[:-1]
    return f"{rest}e" if _measure(rest) == 1 and _ends_cvc(rest) else rest


def _exchanged(word: str, endings: dict[str, str], measure_over: int) -> str:
    """The word without the longest ending that fits, if the rest is long enough.

    Shorter endings are not tried.
    """
    for size in range(min(7, len(word) - 1), 1, -1):
        ending = word[-size:]
        if ending in endings:
            rest = word[:-size]
            goes = _measure(rest) > measure_over and (ending != "ion" or rest.endswith(("s", "t")))
            return rest + endings[ending] if goes else word
    return word


def _is_consonant(word: str, at: int) -> bool:
    if word[at] in _VOWELS:
        return False
    return word[at] != "y" or at == 0 or not _is_consonant(word, at - 1)


def _has_vowel(word: str) -> bool:
    return not all(_is_consonant(word, at) for at in range(len(word)))


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    kinds = [_is_consonant(word, at) for at in range(len(word))]
    return sum(after and not before for before, after in pairwise(kinds))


def _ends_cvc(word: str) -> bool:
    """Consonant, vowel, consonant at the end, the last not w, x or y."""
    last = len(word) - 1
    return (
        last >= 2
        and _is_consonant(word, last)
        and not _is_consonant(word, last - 1)
        and _is_consonant(word, last - 2)
        and word[last] not in "wxy"
    )
