"""What a recorded call says of itself, read from the body of its intent when somebody asks."""

from collections.abc import Callable, Mapping

from holdfast.core.steps.identity import enclosing
from holdfast.model.calls import Call
from holdfast.model.event_fields import fields_of


def is_once(call: Call) -> bool:
    """Whether an open call was recorded as a once effect, whatever the program declares now."""
    return call.body is not None and fields_of(call.body)["effect"] == "once"


def is_inside_answered(call: Call, calls: Mapping[str, Call], body_of: Callable[[Call], bytes]) -> bool:
    """Whether an enclosing step was answered from the journal: then the whole subtree is consumed with it."""
    scope: str = fields_of(body_of(call))["in"]
    while scope:
        parent = calls.get(scope)
        if parent is None:
            scope = enclosing(scope)
        elif parent.taken and parent.outcomes[parent.taken - 1].good:
            return True
        else:
            scope = fields_of(body_of(parent))["in"]
    return False


def model_of(intent: bytes) -> list[str] | None:
    """The model and the provider that an intent names, read without the request; None where it names none."""
    fields = fields_of(intent)
    named = [fields.get("model", ""), fields.get("provider", "")]
    return named if any(named) else None
