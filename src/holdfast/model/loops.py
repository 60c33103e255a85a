"""Nouns of the search for circles: what an agent did and thought, how patient to be with it, and the sign it is given."""

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

Level = Literal["warn", "nudge", "pause"]
LEVELS: Final[tuple[Level, ...]] = ("warn", "nudge", "pause")
Pattern = Literal["repeat", "alternation", "thought"]


class Act(NamedTuple):
    """A call that came to its end: its name, and what tells its arguments and its result or failure from others."""

    name: str
    arguments: Hashable
    result: Hashable


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


Manner = Thresholds | Literal["polling", "off"] | None
"""How a call declares itself: its own thresholds; asked again on purpose; not looked at; or like the others."""


class LoopPolicy(NamedTuple):
    """When to give which sign.

    ``steps`` are for calls of ``run.step`` and ``run.once``: a loop over them is mostly the program's own, so nothing stops
    it unless that is asked for. ``tools`` has thresholds by name, and goes before what a call declares of itself. ``polling`` tools are asked again
    on purpose: they never count themselves, and another answer of theirs is progress. ``memory`` is how many calls ago
    something may lie and still be known as old. ``similarity`` is the share of words that two thoughts have in common
    (of all words in either) from which they count as one.
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
    """The agent goes in circles. ``what`` tells people; ``text`` is for the model, and empty unless this is a nudge."""

    level: Level
    pattern: Pattern
    names: tuple[str, ...]
    times: int
    what: str
    text: str = ""


class Signed(NamedTuple):
    """A sign as the journal has it, at the outcome that called for it. ``left``: something new came; ``again``: all counts begin again."""

    seq: int
    level: Level | Literal["left", "again"]
    text: str = ""
