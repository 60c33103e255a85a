"""Finds what changed in a text, word by word.

Texts are matched by sentence first, then by word in the sentences that differ, so a long draft with an edit
at each end is cheap. Invariants: the equal and added pieces, joined, are the new text; the equal and removed
ones the old text. The work is bounded: a text that is too long to match is removed and added as a whole.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from holdfast.model.named_tuple import NamedTuple

_MIDDLE_CHARS_MAX: Final = 200_000
"""If the part that differs is longer than this, it is not cut into words at all."""
_PAIRS_MAX: Final = 16_000_000
_EQUAL_PAIRS_MAX: Final = 50_000
"""Bounds on pairs of sentences or words, and on equal pairs, which cost the most.

Beyond them nothing is matched.
"""
_WORD_CHARS_MAX: Final = 64
_CONTEXT_WORDS: Final = 5
_REWRITTEN_SHARE: Final = 0.2
"""If a smaller share of the words stayed, the text counts as rewritten."""

# Scripts without blanks between words: each character counts as a word.
_CLOSE: Final = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD: Final = re.compile(rf"(\s*)([{_CLOSE}]|[^\s{_CLOSE}]{{1,{_WORD_CHARS_MAX}}}|$)")
_SENTENCE: Final = re.compile(r".*?(?:[.!?。]+(?=\s|$)|[。\n]|$)", re.DOTALL)


class Piece(NamedTuple):
    """A part of the text that stayed, was removed or was added."""

    kind: Literal["equal", "removed", "added"]
    text: str


def word_diff(old: str, new: str) -> tuple[Piece, ...]:
    """The pieces that turn the old text into the new one."""
    begin, end = _common(old, new)
    middle_old, middle_new = old[begin : len(old) - end], new[begin : len(new) - end]
    found = [Piece("equal", old[:begin]), *_middle(middle_old, middle_new)]
    return tuple(_joined([*found, Piece("equal", old[len(old) - end :] if end else "")]))


def is_rewritten(pieces: Sequence[Piece]) -> bool:
    """Whether so little stayed that this is another text."""
    sizes = {"equal": 0, "removed": 0, "added": 0}
    for kind, text in pieces:
        sizes[kind] += word_count(text)
    smaller = sizes["equal"] + min(sizes["removed"], sizes["added"])
    return sizes["equal"] < _REWRITTEN_SHARE * smaller and min(sizes["removed"], sizes["added"]) > 0


def word_count(text: str) -> int:
    """How many words a text has, as people count them."""
    return len(text.split())


def with_context(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The pieces with equal parts cut to a few words around each change; empty if nothing changed."""
    if all(piece.kind == "equal" for piece in pieces):
        return ()
    last = len(pieces) - 1
    return tuple(
        Piece(kind, _shortened(text, starts=number > 0, ends=number < last))
        if kind == "equal"
        else Piece(kind, text)
        for number, (kind, text) in enumerate(pieces)
    )


def _shortened(text: str, *, starts: bool, ends: bool) -> str:
    """The words next to the change before it (``starts``) and the one after it (``ends``)."""
    chars = _CONTEXT_WORDS * _WORD_CHARS_MAX
    first, last = text[:chars], text[-chars:]
    head = first[: _ends(first)[:_CONTEXT_WORDS][-1][1]] if starts else ""
    tail = last[_ends(last)[-_CONTEXT_WORDS:][0][0] :] if ends else ""
    short = f"{head}{' ' if head else ''}…{' ' if tail else ''}{tail}"
    return short if len(short) < len(text) else text


def _ends(text: str) -> list[tuple[int, int]]:
    """The beginnings and ends of the words."""
    return [found.span(2) for found in _WORD.finditer(text) if found[2]] or [(0, len(text))]


# -- the common beginning and end, by binary search on slices ------------------------------------------------


def _common(old: str, new: str) -> tuple[int, int]:
    """How many characters are equal at the beginning and at the end, back to the edges of words."""
    begin = _common_start(old, new)
    for back in range(min(begin, _WORD_CHARS_MAX) + 1):
        if _is_edge(old, begin - back) and _is_edge(new, begin - back):
            begin -= back
            break
    end = _common_end(old, new, min(len(old), len(new)) - begin)
    for back in range(min(end, _WORD_CHARS_MAX) + 1):
        if _is_edge(old, len(old) - end + back) and _is_edge(new, len(new) - end + back):
            end -= back
            break
    return begin, end


def _common_start(old: str, new: str) -> int:
    low, high = 0, min(len(old), len(new))
    while low < high:
        half = (low + high + 1) // 2
        low, high = (half, high) if old[low:half] == new[low:half] else (low, half - 1)
    return low


def _common_end(old: str, new: str, room: int) -> int:
    low, high = 0, room
    while low < high:
        half = (low + high + 1) // 2
        same = old[len(old) - half : len(old) - low] == new[len(new) - half : len(new) - low]
        low, high = (half, high) if same else (low, half - 1)
    return low


def _is_edge(text: str, at: int) -> bool:
    """Whether a word ends or begins there: next to a blank, or at an end of the text."""
    return at in (0, len(text)) or text[at].isspace() or text[at - 1].isspace()


# -- the middle: by sentence, then by word -------------------------------------------------------------------


def _middle(old: str, new: str) -> Iterator[Piece]:
    if max(len(old), len(new)) > _MIDDLE_CHARS_MAX:
        yield from (Piece("removed", old), Piece("added", new))
        return
    olds, news = _SENTENCE.findall(old), _SENTENCE.findall(new)
    for a, b, is_equal in _matched(olds, news):
        before, after = "".join(olds[a]), "".join(news[b])
        if is_equal:
            yield Piece("equal", after)
        else:
            yield from _words(before, after)


def _words(old: str, new: str) -> Iterator[Piece]:
    olds, news = _WORD.findall(old), _WORD.findall(new)
    for a, b, is_equal in _matched([word for _, word in olds], [word for _, word in news]):
        if not is_equal:
            yield Piece("removed", "".join(map("".join, olds[a])))
            yield Piece("added", "".join(map("".join, news[b])))
            continue
        for (blank_before, word), (blank_after, _) in zip(olds[a], news[b], strict=True):
            if blank_before != blank_after:
                yield from (Piece("removed", blank_before), Piece("added", blank_after))
                yield Piece("equal", word)
            else:
                yield Piece("equal", blank_after + word)


def _matched(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[slice, slice, bool]]:
    """Ranges of both that are equal, or that replace each other."""
    if not 0 < len(old) * len(new) <= _PAIRS_MAX or _equal_pairs(old, new) > _EQUAL_PAIRS_MAX:
        yield slice(0, len(old)), slice(0, len(new)), False
        return
    from difflib import SequenceMatcher

    for tag, a, a_end, b, b_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield slice(a, a_end), slice(b, b_end), tag == "equal"


def _equal_pairs(old: Sequence[str], new: Sequence[str]) -> int:
    times = Counter(new)
    return sum(number * times[word] for word, number in Counter(old).items())


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Merge neighbours of one kind and drop empty ones.

    Between equal pieces, the removed text comes first.
    """
    kept = gone = come = ""
    for kind, text in pieces:
        if kind == "equal" and text:
            if gone or come:
                yield from _three(kept, gone, come)
                kept = gone = come = ""
            kept += text
        elif kind == "removed":
            gone += text
        else:
            come += text
    yield from _three(kept, gone, come)


def _three(kept: str, gone: str, come: str) -> Iterator[Piece]:
    blank = gone[: len(gone) - len(gone.lstrip())]
    if blank and come.startswith(blank):
        # One word replaced another: the blank before it stayed.
        kept, gone, come = kept + blank, gone[len(blank) :], come[len(blank) :]
    yield from (
        piece for piece in (Piece("equal", kept), Piece("removed", gone), Piece("added", come)) if piece.text
    )
