"""Joins the tries of one model call into one answer: what arrived before a cut, and the continuation.

The first chunk of a try says how it continues the one before: ``"continues": "prefill"`` or ``"asked"``;
without that, the try is a new answer. The join keeps what the model wrote: whitespace is neither added nor
removed, and only what the model evidently wrote twice is dropped.
"""

from collections.abc import Iterable, Mapping
from re import compile as pattern
from typing import Any, Final

from holdfast.core.llm.streams.partial_answer import Partial

_OF_ONE_TRY: Final = frozenset({"finish_reason", "error", "usage", "response"})
_WORD: Final = pattern(r"\w+")
_OVERLAP_CHARS_MIN: Final = 10
_OVERLAP_WORDS_MIN: Final = 2
_OVERLAP_CHARS_MAX: Final = 4_000
_HELD_BACK_CHARS: Final = 200


def fold_partial(bodies: Iterable[Mapping[str, Any]]) -> Partial:
    """The partial answer of these ``stream.chunk`` bodies: of the last try and the tries it continues."""
    before, how = Partial(), ""
    current, number = Partial(), None
    for body in bodies:
        if body.get("try") != number:
            so_far = joined(before, current, how) if how else current
            number, how = body.get("try"), body.get("continues", "")
            before, current = (so_far if how else Partial()), Partial()
        current.add(body)
    return joined(before, current, how) if how else current


def joined(before: Partial, after: Partial, how: str) -> Partial:
    """One answer from what arrived before the cut and what came after it.

    ``how`` is ``prefill`` or ``asked``. Tool calls from before the cut are left out: the model that continues
    makes them again.
    """
    whole = Partial()
    whole.text = prefilled(before.text, after.text) if how == "prefill" else join(before.text, after.text)
    whole.reasoning = "\n\n".join(part for part in (before.reasoning, after.reasoning) if part)
    whole.refusal = after.refusal
    whole.calls, whole.more = after.calls, before.more | after.more
    lasting = {name: fact for name, fact in before.facts.items() if name not in _OF_ONE_TRY}
    whole.facts = lasting | after.facts
    # A reader would take the logprobs of one half for those of the whole text.
    whole.logprobs = {} if before.text else after.logprobs
    whole.items = [*before.items, *after.items]
    return whole


def prefill_of(text: str) -> str:
    """The beginning of the answer to send, without whitespace at its end, which some providers refuse."""
    return text.rstrip()


def prefilled(before: str, after: str) -> str:
    """The answer after a prefill, which was sent without the whitespace at its end."""
    sent = prefill_of(before)
    if _is_telling(sent) and after.startswith(sent):  # some servers repeat the prefill in the answer
        return after
    # If the model wrote the whitespace again, that counts; if not, the original stays.
    return sent + after if after[:1].isspace() else before + after


def join(before: str, after: str) -> str:
    """The answer after an explicit request to continue.

    If the model repeated its last words, they are kept once. The check is careful: a repeat of a few
    characters, a single word or a pattern may be intended, and stays.
    """
    for given in (after, after.lstrip()):
        if _is_telling(before) and given.startswith(before):
            return given
        cut = _overlap(before[-_OVERLAP_CHARS_MAX:], given[:_OVERLAP_CHARS_MAX])
        if cut:
            return before + given[cut:]
    return before + after


def _overlap(before: str, after: str) -> int:
    """How many characters at the beginning of ``after`` repeat the end of ``before``."""
    for length in range(min(len(before), len(after)), _OVERLAP_CHARS_MIN - 1, -1):
        if before.endswith(after[:length]):
            # If the longest overlap can be chance, a shorter one can be too.
            return length if _is_telling(after[:length]) else 0
    return 0


def _is_telling(text: str) -> bool:
    """Whether this is no repeat by chance: long enough, of several words, and no repeating pattern."""
    if len(text) < _OVERLAP_CHARS_MIN or len(_WORD.findall(text)) < _OVERLAP_WORDS_MIN:
        return False
    bare = " ".join(text.split())
    return f" {bare} " not in f" {bare} {bare} "[1:-1]


class JoinPoint:
    """Joins a continuation to an answer while the program receives both piece by piece.

    Only after some of the continuation is it clear how much of it is a repeat; until then it is held back.
    What the program got is never taken back, so the whole answer is exactly what the program got.
    """

    __slots__ = ("_before", "_head", "_how", "_used", "given", "rest")

    def __init__(self, before: str, how: str, given: str | None = None) -> None:
        """``given`` is what the program has got already; None: as much as can be given before the join."""
        self._before, self._how = before, how
        if given is None:
            given = prefill_of(before) if how == "prefill" else before
        self.given = given
        """What the program gets before the join is settled."""
        self.rest = ""
        """What the program gets when it is settled."""
        self._head: str | None = None
        self._used = 0

    @property
    def is_settled(self) -> bool:
        """Whether it is known how the two are joined."""
        return self._head is not None

    def settles(self, after: str, *, at_end: bool) -> bool:
        """Settle the join if this much of the continuation is enough, or if it is all of it."""
        if not at_end and not self._is_enough(after):
            return False
        prefill = self._how == "prefill"
        head = prefilled(self._before, after) if prefill else join(self._before, after)
        if not head.startswith(self.given):
            # The program has the whitespace at the end already, and the model wrote it once more.
            head = self._before + after.lstrip()
        assert head.startswith(self.given)
        self._head = head
        self.rest, self._used = self._head[len(self.given) :], len(after)
        return True

    def text_with(self, after: str) -> str:
        """The whole answer, with this much of the continuation."""
        return self._before if self._head is None else self._head + after[self._used :]

    def given_with(self, after: str) -> str:
        """What the program has got so far, with this much of the continuation."""
        return self.given if self._head is None else self.text_with(after)

    def _is_enough(self, after: str) -> bool:
        if self._how == "prefill":
            return bool(after) and not self.given.startswith(after)
        bare = after.lstrip()
        return len(bare) >= _HELD_BACK_CHARS and not self._before.startswith(bare)
