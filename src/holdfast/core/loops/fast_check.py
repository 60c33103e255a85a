"""Loop detection on the path of every step: nearly free as long as every call is new.

A call that was not made recently is new, whatever its result, so it is only kept in a queue. The first
repeated call loads ``Loops`` and passes the queue to it. The signs are the same as if ``Loops`` had seen
every fact at once.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.core.loops.loop_acts import Called, act_of, digests_of
from holdfast.model.loops import Act, LoopPolicy, Manner, Sign, Signed, Thought

if TYPE_CHECKING:
    from holdfast.core.loops.loop_detector import Loops


def nudge_in(signs: Iterable[Signed]) -> str:
    """The text to give the model after these signs; empty if there is none, or if the loop was left since."""
    # Every other level, such as "left", has an empty text and so ends the nudge before it.
    texts = [signed.text for signed in signs if signed.level not in {"warn", "pause"}]
    return texts[-1] if texts else ""


class LoopDetector:
    """Takes calls and thoughts one by one, and returns the sign of a loop for each, if there is one."""

    def __init__(self, policy: LoopPolicy) -> None:
        self.has_news = False
        """Whether the last fact was new."""
        self._policy = policy
        self._memory = policy.memory
        self._carries = False
        self._loops: Loops | None = None
        self._lately: dict[Called, None] = {}
        """The recent calls, the oldest first."""
        self._waiting: deque[tuple[Called, bytes, Manner]] = deque(maxlen=policy.memory)
        """New calls that ``_loops`` has not seen.

        It would have forgotten those that fall out of this queue.
        """

    def call(self, called: Called, outcome: bytes, manner: Manner) -> Sign | None:
        """Take a call that has ended; ``outcome`` is the body of its outcome."""
        if self._carries:
            return self._see(digests_of(called, outcome), manner)
        if manner == "off":
            self.has_news = False
            return None
        lately, waiting = self._lately, self._waiting
        if called in lately:
            del lately[called]  # put back last: the oldest are dropped first
            lately[called] = None
            return self._see(act_of(called, outcome), manner)
        lately[called] = None
        if len(lately) > self._memory:
            del lately[next(iter(lately))]
        if len(waiting) == self._memory:
            self._loops = None  # everything that it knows is older than the memory allows
        waiting.append((called, outcome, manner))
        self.has_news = True
        return None

    def carried(self, act: Act, manner: Manner) -> Sign | None:
        """Take a call of which a compaction has left digests.

        From then on every call is compared by digests, and at once.
        """
        self._carries = True
        return self._see(act, manner)

    def thought(self, text: str) -> Sign | None:
        """Take a thought of the agent."""
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
