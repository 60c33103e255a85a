"""Finds a result for a tool call that has none in the conversation, from what the journal knows of it.

Nothing is invented. A recorded outcome is the result. For a call that began and never reported back, the text
says that it is in doubt, or that it can be made again. For a call that never began, the text says so.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.core.llm.conversation.message import Ask
from holdfast.core.steps.identity import keyed
from holdfast.model.named_tuple import NamedTuple

DOUBT: Final = (
    "interrupted: the process ended before this call reported back; it is not known whether it happened"
)
AGAIN: Final = "interrupted: the process ended before this call reported back; it can be made again"
NOT_RUN: Final = "not run: the process ended before this call was begun"
PLACEHOLDERS: Final = frozenset({DOUBT, AGAIN, NOT_RUN})
"""Results that only say that there is none. A real result replaces them."""


class Known(NamedTuple):
    """What matters here of a recorded step. ``result`` is None if its end is not known."""

    seq: int
    key: str
    name: str
    arguments: Any
    repeatable: bool
    result: str | None
    is_tool: bool = False


class Settler:
    """Finds the step of a call: by the call's id if that was its key, else by name and arguments.

    It uses a step once.
    """

    def __init__(self, steps: Iterable[Known]) -> None:
        self._steps = sorted(steps)
        self._used: set[int] = set()

    def text_of(self, ask: Ask, *, after_seq: int = 0) -> str:
        """The result for the model. ``after_seq`` is where the call was recorded: its step came later."""
        step = self._find(ask, after_seq)
        if step is not None:
            self._used.add(step.seq)
            if step.result is not None:
                return step.result
            return AGAIN if step.repeatable else DOUBT
        # Without a step, the call did not begin, if the program records its tool calls. Otherwise it is
        # unknown.
        is_recorded = any(known.is_tool or known.name == ask.name for known in self._steps)
        return NOT_RUN if is_recorded else DOUBT

    def _find(self, ask: Ask, after_seq: int) -> Known | None:
        later = [step for step in self._steps if step.seq > after_seq and step.seq not in self._used]
        if not after_seq:  # unknown which of several equal steps it was: most probably the last
            later.reverse()
        by_key = (step for step in later if ask.id and step.key == keyed(ask.id))
        alike = (step for step in later if step.name == ask.name and _agree(ask.arguments, step.arguments))
        return next(by_key, None) or next(alike, None)


def _agree(asked: Any, recorded: Any) -> bool:
    """Whether a step got the arguments of a call.

    The step may have more (defaults), or have all of them as one.
    """
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
