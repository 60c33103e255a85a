"""What a recorded call says of itself, read from the body of its intent when somebody asks."""

from collections.abc import Mapping

from orjson import loads

from holdfast.core.identity import enclosing
from holdfast.model.calls import Call


def is_once(call: Call) -> bool:
    """Whether it was recorded as a once effect, whatever the program declares now."""
    return call.body is not None and loads(call.body)["effect"] == "once"


def is_inside_answered(call: Call, calls: Mapping[str, Call]) -> bool:
    """Whether an enclosing step was answered from the journal: then the whole subtree is consumed with it."""
    scope = loads(call.body)["in"] if call.body else ""
    while scope:
        parent = calls.get(scope)
        if parent is not None and parent.taken and parent.outcomes[parent.taken - 1].good:
            return True
        scope = loads(parent.body)["in"] if parent is not None and parent.body else enclosing(scope)
    return False
