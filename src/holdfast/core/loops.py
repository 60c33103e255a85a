"""Whether an agent goes in circles, decided from what it did and thought, one small fact at a time.

It knows names, digests and texts; it refuses to know what they mean, where they come from and what is done about a
sign. The invariant: only repetition gives a sign. Whatever is new (a call not made lately, or an old one with
another result) is progress, and progress begins every count again. So three things are found:

- repeat: the same call gives the same result, again, with nothing new since; also with other old calls in between
- alternation: two or three calls that follow each other round after round: A-B-A-B, A-B-C-A-B-C
- thought: the same words, or nearly the same, with nothing new done since; a changed number is a new thought

What is kept is bounded by the policy's ``memory``, and ``dump`` gives it as JSON-ready data: counts survive restarts.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Self

LOOPS_VERSION: Final = 1
"""Grows when dumped counts would be read differently; counts of other versions are begun again."""

THOUGHT_CHARS_MAX: Final = 4_000
"""Of a longer thought, the first and the last half of this many characters are compared."""

PERIODS: Final = (2, 3)
Level = Literal["warn", "nudge", "pause"]
LEVELS: Final[tuple[Level, ...]] = ("warn", "nudge", "pause")
Pattern = Literal["repeat", "alternation", "thought"]


class Act(NamedTuple):
    """A call that came to its end: its name, and digests of its arguments and of its result or failure."""

    name: str
    arguments: str
    result: str


class Thought(NamedTuple):
    """What the agent said to itself."""

    text: str


class Thresholds(NamedTuple):
    """After how many times each sign is given; 0 never. The first time is never a sign."""

    warn: int = 2
    nudge: int = 3
    pause: int = 5

    def level(self, times: int) -> Level | None:
        """The gravest sign that this many times call for."""
        if times < 2:
            return None
        if self.pause and times >= self.pause:
            return "pause"
        if self.nudge and times >= self.nudge:
            return "nudge"
        return "warn" if self.warn and times >= self.warn else None


class LoopPolicy(NamedTuple):
    """When to give which sign.

    ``polling`` tools are asked again on purpose: they never count themselves, and another answer of theirs is progress.
    ``memory`` is how many calls ago something may lie and still be known as old. ``similarity`` is the share of words
    that two thoughts have in common (of all words in either) from which they count as one.
    """

    on: bool = True
    thresholds: Thresholds = Thresholds()
    tools: Mapping[str, Thresholds] = MappingProxyType({})
    polling: frozenset[str] = frozenset()
    thoughts: Thresholds = Thresholds(warn=3, nudge=4, pause=6)
    memory: int = 20
    similarity: float = 0.85

    def of(self, name: str) -> Thresholds:
        """The thresholds of one tool."""
        return self.tools.get(name, self.thresholds)


class Sign(NamedTuple):
    """The agent goes in circles. ``what`` tells people; ``text`` is for the model, and empty unless this is a nudge."""

    level: Level
    pattern: Pattern
    names: tuple[str, ...]
    times: int
    what: str
    text: str = ""


class _Known:
    """A call with its result, not long ago: how often in all, how often with nothing new since, and when last."""

    __slots__ = ("at", "since", "times")

    def __init__(self, times: int, since: int, at: int) -> None:
        self.times, self.since, self.at = times, since, at


class Loops:
    """What was done and thought lately. ``see`` takes the next fact and gives the sign it calls for, if any."""

    def __init__(self, policy: LoopPolicy | None = None) -> None:
        """Begin with nothing seen; ``load`` goes on from a dump."""
        self._policy = policy or LoopPolicy()
        self._at = 0
        self._known: dict[Act, _Known] = {}
        self._polled: dict[tuple[str, str], tuple[str, int]] = {}
        self._tail: list[Act] = []
        self._matched = dict.fromkeys(PERIODS, 0)
        """Per period, how many of the last acts were the same as the one so many before."""
        self._words: frozenset[str] = frozenset()
        self._thought_times = 0

    def see(self, fact: Act | Thought) -> Sign | None:
        """Take in one more fact."""
        if not self._policy.on:
            return None
        if isinstance(fact, Thought):
            return self._thought(fact.text)
        self._at += 1
        self._expire()
        if fact.name in self._policy.polling:
            self._poll(fact)
            return None
        return self._act(fact)

    def forget(self) -> None:
        """Begin every count again: somebody looked at the agent and lets it go on."""
        self._known.clear()
        self._polled.clear()
        self._progress()
        self._break_tail()

    def dump(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {
            "version": LOOPS_VERSION,
            "at": self._at,
            "known": [[*act, known.times, known.since, known.at] for act, known in self._known.items()],
            "polled": [[*call, *last] for call, last in self._polled.items()],
            "tail": [list(act) for act in self._tail],
            "matched": list(self._matched.values()),
            "words": sorted(self._words),
            "thought_times": self._thought_times,
        }

    @classmethod
    def load(cls, data: Mapping[str, Any], policy: LoopPolicy | None = None) -> Self:
        """Go on from a dump, under a policy that may be another."""
        loops = cls(policy)
        if data["version"] != LOOPS_VERSION:
            return loops
        loops._at = data["at"]
        loops._known = {Act(*fields[:3]): _Known(*fields[3:]) for fields in data["known"]}
        loops._polled = {(name, args): (result, at) for name, args, result, at in data["polled"]}
        loops._tail = [Act(*fields) for fields in data["tail"]]
        loops._matched = dict(zip(PERIODS, data["matched"], strict=True))
        loops._words = frozenset(data["words"])
        loops._thought_times = data["thought_times"]
        return loops

    # -- acts --------------------------------------------------------------------------------------------------

    def _act(self, act: Act) -> Sign | None:
        known = self._known.pop(act, None)
        if known is None:
            self._progress()
            known = _Known(0, 0, 0)
        known.times, known.since, known.at = known.times + 1, known.since + 1, self._at
        self._known[act] = known  # last: the oldest stand first
        self._extend_tail(act)
        signs = [sign for sign in (self._alternation(), self._repeat(act, known)) if sign is not None]
        return max(signs, key=lambda sign: LEVELS.index(sign.level), default=None)

    def _poll(self, act: Act) -> None:
        """A polling tool is not seen at all, until it answers something else."""
        call = (act.name, act.arguments)
        last = self._polled.pop(call, None)
        self._polled[call] = (act.result, self._at)
        if last is None or last[0] != act.result:
            self._progress()
            self._break_tail()

    def _progress(self) -> None:
        """Something new: whatever was repeated before, it led somewhere."""
        for known in self._known.values():
            known.since = 0
        self._words, self._thought_times = frozenset(), 0

    def _break_tail(self) -> None:  # not for a new act: that may be the first of a circle
        self._tail, self._matched = [], dict.fromkeys(PERIODS, 0)

    def _expire(self) -> None:
        oldest = self._at - self._policy.memory
        for act in [act for act, known in self._known.items() if known.at < oldest]:
            del self._known[act]
        for call in [call for call, (_, at) in self._polled.items() if at < oldest]:
            del self._polled[call]

    def _extend_tail(self, act: Act) -> None:
        for period in PERIODS:
            is_same = len(self._tail) >= period and self._tail[-period] == act
            self._matched[period] = self._matched[period] + 1 if is_same else 0
        self._tail = [*self._tail, act][-max(PERIODS) :]

    def _repeat(self, act: Act, known: _Known) -> Sign | None:
        level = self._policy.of(act.name).level(known.since)
        if level is None:
            return None
        return _sign(
            level,
            "repeat",
            (act.name,),
            known.times,
            what=f"{act.name} ran {known.times} times with the same arguments and the same result",
            text=f"You have called {act.name} with the same arguments {known.times} times and got the same result; "
            "try something else or finish.",
        )

    def _alternation(self) -> Sign | None:
        for period in PERIODS:
            circle = self._tail[-period:]
            rounds = self._matched[period] // period + 1
            if len(set(circle)) < period:
                continue  # the same act over and over is a repeat, whatever else it can be read as
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
                    text=f"You are going in circles: you have called {listed} in turn {rounds} times, with the same "
                    "arguments and the same results; try something else or finish.",
                )
        return None

    def _patience(self, circle: list[Act]) -> Thresholds:
        """Of the tools in a circle, the one that may be repeated most often decides; 0 is more than any number."""
        each = zip(*(self._policy.of(act.name) for act in circle), strict=True)
        return Thresholds(*(0 if 0 in numbers else max(numbers) for numbers in each))

    # -- thoughts ----------------------------------------------------------------------------------------------

    def _thought(self, text: str) -> Sign | None:
        words = _words_of(text)
        if not words:
            return None
        if not _is_same(words, self._words, self._policy.similarity):
            self._words, self._thought_times = words, 0
        # Compared with the first of its kind, not with the last: small changes that add up are a development.
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


# Scripts without blanks between words: each sign counts as a word, or a sentence would be one.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u9fff"
_WORD: Final = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


def _words_of(text: str) -> frozenset[str]:
    """The words of a thought: without order, case, punctuation and how often each occurs."""
    half = THOUGHT_CHARS_MAX // 2
    if len(text) > THOUGHT_CHARS_MAX:
        text = f"{text[:half]} {text[-half:]}"
    return frozenset(_WORD.findall(text.casefold()))


def _is_same(one: frozenset[str], other: frozenset[str], similarity: float) -> bool:
    """Whether two thoughts have nearly the same words. "Page 7 is done" and "page 8 is done" are two."""
    different = one ^ other
    if any(any(sign.isdigit() for sign in word) for word in different):
        return False
    return len(one & other) >= similarity * len(one | other)
