"""Decides whether an agent is in a loop, from its calls and thoughts, one at a time.

It compares names, arguments, hashes and texts, and does not know what they mean. The invariant: only
repetition gives a sign. A call that was not made recently, or that has another result than before, is
progress, and progress resets every count. Three patterns are found:

- repeat: the same call gives the same result again, with nothing new since; other old calls may be in between
- alternation: two or three calls in turn, round after round: A-B-A-B, A-B-C-A-B-C
- thought: nearly the same words again, with nothing new done since; another number makes it a new thought

The policy's ``memory`` bounds what is kept. The same facts in the same order give the same signs.
"""

import re
from collections.abc import Hashable
from typing import Final

from holdfast.model.loops import (
    LEVELS,
    Act,
    Level,
    LoopPolicy,
    Manner,
    Pattern,
    Sign,
    Thought,
    Thresholds,
)

THOUGHT_CHARS_MAX: Final = 4_000
"""Of a longer thought, the first and the last half of this many characters are compared."""

PERIODS: Final = (2, 3)


class _Known:
    """A recent call with its result: how often in all, when last, and how often since the last progress."""

    __slots__ = ("at", "news", "since", "times")

    def __init__(self) -> None:
        self.times = self.at = self.news = self.since = 0


class Loops:
    """The recent calls and thoughts.

    ``see`` takes the next one and returns a sign if it is part of a loop.
    """

    def __init__(self, policy: LoopPolicy | None = None) -> None:
        self.has_news = False
        """Whether the last fact was new."""
        self._policy = policy or LoopPolicy()
        self._declared: dict[str, Thresholds] = {}
        self._at = self._news = 0
        self._known: dict[Act, _Known] = {}
        self._polled: dict[tuple[str, Hashable], tuple[Hashable, int]] = {}
        self._tail: list[Act] = []
        self._matched = dict.fromkeys(PERIODS, 0)
        """Per period, how many of the last acts in a row equal the act one period before."""
        self._words: frozenset[str] = frozenset()
        self._thought_times = 0

    def see(self, fact: Act | Thought, manner: Manner = None) -> Sign | None:
        """Take one more fact; ``manner`` is how the tool of a call wants to be treated."""
        self.has_news = False
        if not self._policy.on or manner == "off":
            return None
        if isinstance(fact, Thought):
            return self._thought(fact.text)
        self._at += 1
        self._expire()
        if manner == "polling" or fact.name in self._policy.polling:
            self._poll(fact)
            return None
        if manner is not None:
            self._declared[fact.name] = manner
        return self._act(fact)

    # -- acts ------------------------------------------------------------------------------------------------

    def _act(self, act: Act) -> Sign | None:
        known = self._known.pop(act, None)
        if known is None:
            known = _Known()
            self._progress()
        if known.news != self._news:
            known.news, known.since = self._news, 0
        known.times, known.since, known.at = known.times + 1, known.since + 1, self._at
        self._known[act] = known  # taken out above and put last, so the oldest are first for ``_expire``
        self._extend_tail(act)
        if self.has_news:
            return None
        signs = [sign for sign in (self._alternation(), self._repeat(act, known)) if sign is not None]
        return max(signs, key=lambda sign: LEVELS.index(sign.level), default=None)

    def _poll(self, act: Act) -> None:
        """Ignore the repeated calls of a polling tool. Another answer than before is progress."""
        call = (act.name, act.arguments)
        last = self._polled.pop(call, None)
        self._polled[call] = (act.result, self._at)
        if last is None or last[0] != act.result:
            self._progress()
            self._break_tail()

    def _progress(self) -> None:
        """Reset the counts, because something new happened: the repetition before it led to it."""
        self.has_news = True
        self._news += 1
        self._words, self._thought_times = frozenset(), 0

    def _break_tail(self) -> None:
        # Only for polls. A new act stays in the tail, because it may be the first act of a loop.
        self._tail, self._matched = [], dict.fromkeys(PERIODS, 0)

    def _expire(self) -> None:
        """Forget what is too old.

        The oldest are first and no two have the same age, so one check is enough.
        """
        oldest = self._at - self._policy.memory
        for act, known in self._known.items():
            if known.at < oldest:
                del self._known[act]
            break
        for call, (_, at) in self._polled.items():
            if at < oldest:
                del self._polled[call]
            break

    def _extend_tail(self, act: Act) -> None:
        tail = self._tail
        for period in PERIODS:
            is_same = not self.has_news and len(tail) >= period and tail[-period] == act
            self._matched[period] = self._matched[period] + 1 if is_same else 0
        tail.append(act)
        if len(tail) > PERIODS[-1]:
            del tail[0]

    def _repeat(self, act: Act, known: _Known) -> Sign | None:
        level = self._thresholds(act.name).level(known.since)
        if level is None:
            return None
        return _sign(
            level,
            "repeat",
            (act.name,),
            known.times,
            what=f"{act.name} ran {known.times} times with the same arguments and the same result",
            text=f"You have called {act.name} with the same arguments {known.times} times and got the same "
            "result; try something else or finish.",
        )

    def _alternation(self) -> Sign | None:
        for period in PERIODS:
            rounds = self._matched[period] // period + 1
            circle = self._tail[-period:]
            if rounds < 2 or len(set(circle)) < period:
                continue  # A-A-A-A also matches with period 2, but it is a repeat
            level = self._patience(circle).level(rounds)
            if level is not None:
                names = tuple(act.name for act in circle)
                listed = ", ".join(names)
                return _sign(
                    level,
                    "alternation",
                    names,
                    rounds,
                    what=f"{listed} followed each other {rounds} times with the same arguments and results",
                    text=f"You are in a loop: you have called {listed} in turn {rounds} times, with the same "
                    "arguments and the same results; try something else or finish.",
                )
        return None

    def _patience(self, circle: list[Act]) -> Thresholds:
        """The thresholds for a loop of several tools: the most patient tool decides; 0 means never."""
        each = zip(*(self._thresholds(act.name) for act in circle), strict=True)
        return Thresholds(*(0 if 0 in numbers else max(numbers) for numbers in each))

    def _thresholds(self, name: str) -> Thresholds:
        policy = self._policy
        return policy.tools.get(name) or self._declared.get(name) or policy.thresholds

    # -- thoughts --------------------------------------------------------------------------------------------

    def _thought(self, text: str) -> Sign | None:
        words = _words_of(text)
        if not words:
            return None
        if not _is_same(words, self._words, self._policy.similarity):
            self._words, self._thought_times = words, 0
        # A thought is compared with the first of its kind, not with the last: small changes that add up are
        # progress.
        self._thought_times += 1
        level = self._policy.thoughts.level(self._thought_times)
        if level is None:
            return None
        return _sign(
            level,
            "thought",
            (),
            self._thought_times,
            what=f"the thought did not change {self._thought_times} times",
            text=f"You have had the same thought {self._thought_times} times and nothing new came of it; "
            "act on it, try something else or finish.",
        )


def _sign(
    level: Level, pattern: Pattern, names: tuple[str, ...], times: int, *, what: str, text: str
) -> Sign:
    return Sign(level, pattern, names, times, what, text if level == "nudge" else "")


# Scripts without blanks between words: each character counts as a word, or a whole sentence would be one.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u9fff"
_WORD: Final = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


def _words_of(text: str) -> frozenset[str]:
    """The set of words of a thought, without case and punctuation."""
    half = THOUGHT_CHARS_MAX // 2
    if len(text) > THOUGHT_CHARS_MAX:
        text = f"{text[:half]} {text[-half:]}"
    return frozenset(_WORD.findall(text.casefold()))


def _is_same(one: frozenset[str], other: frozenset[str], similarity: float) -> bool:
    """Whether two thoughts have nearly the same words. "Page 7 is done" and "page 8 is done" differ."""
    different = one ^ other
    if any(any(sign.isdigit() for sign in word) for word in different):
        return False
    return len(one & other) >= similarity * len(one | other)
