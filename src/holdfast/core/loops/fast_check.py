"""Looking out for circles on the way of every step, at next to no cost while everything is new.

A call that was not made lately is new, whatever came of it: there is nothing to count, and it is only kept as it is
until something may have come again. The signs are those that ``Loops`` would give, had it seen every fact at once.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.core.loops.loop_acts import Called, act_of
from holdfast.model.loops import Act, LoopPolicy, Manner, Sign, Signed, Thought

if TYPE_CHECKING:
    from holdfast.core.loops.loop_detector import Loops


def nudge_in(signs: Iterable[Signed]) -> str:
    """What the model is to be told after these signs; empty if nothing, or if something new has come since."""
    told = [signed.text for signed in signs if signed.level not in {"warn", "pause"}]
    return told[-1] if told else ""


class LoopDetector:
    """Takes in calls and thoughts one by one, and gives the sign that each calls for, if any."""

    def __init__(self, policy: LoopPolicy) -> None:
        self.has_news = False
        """Whether the last fact was something new."""
        self._policy = policy
        self._memory = policy.memory
        self._loops: Loops | None = None
        self._lately: dict[Called, None] = {}
        """The calls made last, the oldest first."""
        self._waiting: deque[tuple[Called, bytes, Manner]] = deque(maxlen=policy.memory)
        """New calls that ``_loops`` has not seen. Those that fall out of it would be forgotten there, too."""

    def call(self, called: Called, outcome: bytes, manner: Manner) -> Sign | None:
        """A call came to its end, with the outcome in this body."""
        if manner == "off":
            self.has_news = False
            return None
        lately, waiting = self._lately, self._waiting
        if called in lately:
            del lately[called]
            lately[called] = None
            return self._see(act_of(called, outcome), manner)
        lately[called] = None
        if len(lately) > self._memory:
            del lately[next(iter(lately))]
        if len(waiting) == self._memory:
            self._loops = None  # all that it knows lies too far back
        waiting.append((called, outcome, manner))
        self.has_news = True
        return None

    def thought(self, text: str) -> Sign | None:
        """The agent said something to itself."""
        return self._see(Thought(text), None)

    def _see(self, fact: Act | Thought, manner: Manner) -> Sign | None:
        from holdfast.core.loops.loop_detector import Loops  # only runs that repeat something need it

        if self._loops is None:
            self._loops = Loops(self._policy)
        for called, outcome, how in self._waiting:
            self._loops.see(act_of(called, outcome), how)
        self._waiting.clear()
        sign = self._loops.see(fact, manner)
        self.has_news = self._loops.has_news
        return sign
