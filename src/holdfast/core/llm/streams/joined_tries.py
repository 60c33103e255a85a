"""Where an answer was cut off and went on: the tries of one call folded into one answer, and the seam between them.

A try says in its first chunk how it goes on from what stood before it: ``"continues": "prefill"`` or ``"asked"``; one
that says nothing began anew. At the seam stays what the model wrote: whitespace is neither added nor taken away, and
only what the model evidently wrote twice is dropped.
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
    """The partial answer of these ``stream.chunk`` bodies: of the last try, and of those that it goes on from."""
    before, how = Partial(), ""
    current, number = Partial(), None
    for body in bodies:
        if body.get("try") != number:
            standing = joined(before, current, how) if how else current
            number, how = body.get("try"), body.get("continues", "")
            before, current = (standing if how else Partial()), Partial()
        current.add(body)
    return joined(before, current, how) if how else current


def joined(before: Partial, after: Partial, how: str) -> Partial:
    """One answer of what stood before the cut and of what came after it; ``how`` is ``prefill`` or ``asked``.

    Tool calls of before are not in it: whoever goes on after them is asked to make them again.
    """
    whole = Partial()
    whole.text = prefilled(before.text, after.text) if how == "prefill" else join(before.text, after.text)
    whole.reasoning = "\n\n".join(part for part in (before.reasoning, after.reasoning) if part)
    whole.refusal = after.refusal
    whole.calls, whole.more = after.calls, before.more | after.more
    told = {name: fact for name, fact in before.facts.items() if name not in _OF_ONE_TRY}
    whole.facts = told | after.facts
    whole.logprobs = (
        {} if before.text else after.logprobs
    )  # those of one half would be read as those of the whole
    whole.items = [*before.items, *after.items]
    return whole


def prefill_of(text: str) -> str:
    """What is sent as the beginning of the answer: without whitespace at its end, which some providers refuse."""
    return text.rstrip()


def prefilled(before: str, after: str) -> str:
    """The answer after a prefill. Whitespace that was not sent is the model's to write again; if it did not, it stays."""
    sent = prefill_of(before)
    if _is_telling(sent) and after.startswith(sent):  # a server that answers with the prefill too
        return after
    return sent + after if after[:1].isspace() else before + after


def join(before: str, after: str) -> str:
    """The answer after an explicit request to go on: what the model repeated of its own last words stands once.

    Conservative: a few characters, a single word or a repeating pattern may be meant, and stay.
    """
    for given in (after, after.lstrip()):
        if _is_telling(before) and given.startswith(before):
            return given
        cut = _overlap(before[-_OVERLAP_CHARS_MAX:], given[:_OVERLAP_CHARS_MAX])
        if cut:
            return before + given[cut:]
    return before + after


def _overlap(before: str, after: str) -> int:
    """How many characters at the beginning of ``after`` are the end of ``before`` once more."""
    for length in range(min(len(before), len(after)), _OVERLAP_CHARS_MIN - 1, -1):
        if before.endswith(after[:length]):
            # A part of it would be less telling still.
            return length if _is_telling(after[:length]) else 0
    return 0


def _is_telling(text: str) -> bool:
    """Whether nobody writes this twice in a row by chance: long enough, of several words, and no mere repetition."""
    if len(text) < _OVERLAP_CHARS_MIN or len(_WORD.findall(text)) < _OVERLAP_WORDS_MIN:
        return False
    bare = " ".join(text.split())
    return f" {bare} " not in f" {bare} {bare} "[1:-1]


class JoinPoint:
    """Where a continuation meets what was there, while both are given to somebody piece by piece.

    How much of the continuation is a repetition can be told only after some of it: until then it is held back. Once it
    is settled nothing of what was given is ever taken back, so that the whole is exactly what was given.
    """

    __slots__ = ("_before", "_head", "_how", "_used", "given", "rest")

    def __init__(self, before: str, how: str, given: str | None = None) -> None:
        """``given`` is what somebody has of it already; without it, all that can be given is still to be."""
        self._before, self._how = before, how
        if given is None:
            given = prefill_of(before) if how == "prefill" else before
        self.given = given
        """What of it is given before anything of the continuation is known."""
        self.rest = ""
        """What is to be given when it is settled."""
        self._head: str | None = None
        self._used = 0

    @property
    def is_settled(self) -> bool:
        """Whether it is known how the two go together."""
        return self._head is not None

    def settles(self, after: str, *, at_end: bool) -> bool:
        """Settle it if this much of the continuation, or all of it, tells enough."""
        if not at_end and not self._tells_enough(after):
            return False
        prefill = self._how == "prefill"
        head = prefilled(self._before, after) if prefill else join(self._before, after)
        if not head.startswith(
            self.given
        ):  # the whitespace at its end was given already, and written once more
            head = self._before + after.lstrip()
        assert head.startswith(self.given)
        self._head = head
        self.rest, self._used = self._head[len(self.given) :], len(after)
        return True

    def text_with(self, after: str) -> str:
        """The whole, with all that has come of the continuation."""
        return self._before if self._head is None else self._head + after[self._used :]

    def given_with(self, after: str) -> str:
        """What somebody has who was given all that could be, with all that has come of the continuation."""
        return self.given if self._head is None else self.text_with(after)

    def _tells_enough(self, after: str) -> bool:
        if self._how == "prefill":
            return bool(after) and not self.given.startswith(after)
        bare = after.lstrip()
        return len(bare) >= _HELD_BACK_CHARS and not self._before.startswith(bare)
