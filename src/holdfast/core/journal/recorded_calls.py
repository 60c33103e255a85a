"""Reads facts about a recorded call from the body of its intent, which the fold leaves undecoded."""

from collections.abc import Callable, Mapping
from math import inf
from typing import TYPE_CHECKING

from holdfast.core.journal.fold import View
from holdfast.core.steps.identity import enclosing
from holdfast.model.calls import Call, Outcome
from holdfast.model.event_fields import fields_of
from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.model.run_info import RunInfo


class Bodies(NamedTuple):
    """How to read the bodies that a view does not hold."""

    intent_of: Callable[[Call], bytes]
    body_of: Callable[[Outcome], bytes]


def is_once(call: Call) -> bool:
    """Whether an open call was recorded with the effect ``once``, whatever the program declares now."""
    return call.body is not None and fields_of(call.body)["effect"] == "once"


def is_inside_answered(
    call: Call, calls: Mapping[str, Call], body_of: Callable[[Call], bytes], before_seq: float = inf
) -> bool:
    """Whether an enclosing step was answered from the journal, by an outcome before this event.

    Then the program never asks for the calls inside.
    """
    return is_answered(fields_of(body_of(call))["in"], calls, body_of, before_seq)


def is_answered(
    scope: str, calls: Mapping[str, Call], body_of: Callable[[Call], bytes], before_seq: float = inf
) -> bool:
    """Whether this step, or one around this scope, was answered from the journal before this event."""
    while scope:
        parent = calls.get(scope)
        if parent is None:  # a ``run.scope``, which is no call: look around it
            scope = enclosing(scope)
        elif parent.taken and (last := parent.outcomes[parent.taken - 1]).good and last.seq < before_seq:
            return True
        else:
            scope = fields_of(body_of(parent))["in"]
    return False


def model_of(intent: bytes) -> list[str] | None:
    """The model and the provider that an intent names; None if it names neither.

    The request is not decoded.
    """
    fields = fields_of(intent)
    named = [fields.get("model", ""), fields.get("provider", "")]
    return named if any(named) else None


def doubtful(view: View, info: "RunInfo") -> list[Call]:
    """The calls in doubt. A call of a live holder is running, unless the holder recorded a doubt."""
    held = info.holder == "alive"
    return [
        c
        for c in view.open_calls()
        if is_once(c) and not c.abandoned and (c.doubt is not None or not held or c.fence != info.lease.fence)
    ]
