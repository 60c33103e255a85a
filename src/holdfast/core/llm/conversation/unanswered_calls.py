"""What became of a tool call that has no result: what the journal knows of it, in the words the model is told.

Nothing is invented. A recorded outcome is the result; of a call that was begun and never reported back it is said that
nobody knows, or that it can simply be made again; of one that was never begun, that it was not.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from orjson import JSONDecodeError, loads

from holdfast.core.llm.conversation.message import Ask
from holdfast.core.steps.identity import keyed

DOUBT: Final = (
    "interrupted: the process ended before this call reported back; it is not known whether it happened"
)
AGAIN: Final = "interrupted: the process ended before this call reported back; it can be made again"
NOT_RUN: Final = "not run: the process ended before this call was begun"
PLACEHOLDERS: Final = frozenset({DOUBT, AGAIN, NOT_RUN})
"""Results that only say that there is none: a real one takes their place."""


class Known(NamedTuple):
    """A recorded step, as far as this matters. ``result`` is what came of it; None while that is not known."""

    seq: int
    key: str
    name: str
    arguments: Any
    repeatable: bool
    result: str | None
    is_tool: bool = False


class Settler:
    """Finds the step behind a call: by the call's id where that was its key, else by name and arguments, each once."""

    def __init__(self, steps: Iterable[Known]) -> None:
        self._steps = sorted(steps)
        self._used: set[int] = set()

    def text_of(self, ask: Ask, *, after_seq: int = 0) -> str:
        """The result to tell. ``after_seq`` is where the call was recorded: its step came later."""
        step = self._find(ask, after_seq)
        if step is not None:
            self._used.add(step.seq)
            if step.result is not None:
                return step.result
            return AGAIN if step.repeatable else DOUBT
        # Whether it was begun can be told only where such calls are recorded at all.
        is_recorded = any(known.is_tool or known.name == ask.name for known in self._steps)
        return NOT_RUN if is_recorded else DOUBT

    def _find(self, ask: Ask, after_seq: int) -> Known | None:
        later = [step for step in self._steps if step.seq > after_seq and step.seq not in self._used]
        if not after_seq:  # it is not known which of several alike it was: most probably the last
            later.reverse()
        by_key = (step for step in later if ask.id and step.key == keyed(ask.id))
        alike = (step for step in later if step.name == ask.name and _agree(ask.arguments, step.arguments))
        return next(by_key, None) or next(alike, None)


def _agree(asked: Any, recorded: Any) -> bool:
    """Whether a step got the arguments of a call: defaults are filled in, or the whole was given as one."""
    if isinstance(asked, str):
        asked = _parsed(asked)
    given = {} if asked is None else asked
    if not isinstance(recorded, Mapping):
        return False
    if isinstance(given, Mapping) and all(
        name in recorded and recorded[name] == v for name, v in given.items()
    ):
        return True
    return len(recorded) == 1 and given in recorded.values()


def _parsed(arguments: str) -> Any:
    try:
        return loads(arguments) if arguments.strip() else {}
    except JSONDecodeError:
        return arguments
