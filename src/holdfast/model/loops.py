"""Nouns of loop detection: calls and thoughts of an agent, the thresholds, and the signs it gets."""

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from holdfast.model.named_tuple import NamedTuple

Level = Literal["warn", "nudge", "pause"]
LEVELS: Final[tuple[Level, ...]] = ("warn", "nudge", "pause")
Pattern = Literal["repeat", "alternation", "thought"]


class Act(NamedTuple):
    """A finished call, reduced to its name and to what distinguishes its arguments and its result."""

    name: str
    arguments: Hashable
    result: Hashable


class Thought(NamedTuple):
    """A thought that the agent noted."""

    text: str


class Thresholds(NamedTuple):
    """The number of repetitions for each sign; 0 never. The first occurrence is never a sign."""

    warn: int = 2
    nudge: int = 3
    pause: int = 5

    def level(self, times: int) -> Level | None:
        """The strongest sign for this many repetitions."""
        if times < 2:
            return None
        if self.pause and times >= self.pause:
            return "pause"
        if self.nudge and times >= self.nudge:
            return "nudge"
        return "warn" if self.warn and times >= self.warn else None


Manner = Thresholds | Literal["polling", "off"] | None
"""How loop detection treats a call: own thresholds; polling on purpose; ignored; or the default."""


class LoopPolicy(NamedTuple):
    """The thresholds of loop detection.

    ``steps`` are for calls of ``run.step`` and ``run.once``: a loop over them is mostly the program's own, so
    nothing stops it by default. ``tools`` has thresholds by name, which override what a call declares.
    ``polling`` tools repeat on purpose: they never count themselves, and a different answer of theirs is
    progress. ``memory`` is the number of calls for which a call is remembered. ``similarity`` is the share of
    common words (of all words in either) from which two thoughts count as equal.
    """

    on: bool = True
    thresholds: Thresholds = Thresholds()
    steps: Thresholds = Thresholds(pause=0)
    tools: Mapping[str, Thresholds] = MappingProxyType({})
    polling: frozenset[str] = frozenset()
    thoughts: Thresholds = Thresholds(warn=3, nudge=4, pause=6)
    memory: int = 20
    similarity: float = 0.85


class Sign(NamedTuple):
    """The agent repeats itself.

    ``what`` is for people; ``text`` is for the model, and empty unless it is a nudge.
    """

    level: Level
    pattern: Pattern
    names: tuple[str, ...]
    times: int
    what: str
    text: str = ""


class Signed(NamedTuple):
    """A recorded sign, at the outcome that caused it.

    ``left``: something new came; ``again``: all counts restart.
    """

    seq: int
    level: Level | Literal["left", "again"]
    text: str = ""
