"""What a recorded call says of itself, read from the body of its intent when somebody asks."""

import re
from collections.abc import Callable, Mapping

from orjson import loads

from holdfast.core.identity import enclosing
from holdfast.model.calls import Call


def is_once(call: Call) -> bool:
    """Whether an open call was recorded as a once effect, whatever the program declares now."""
    return call.body is not None and loads(call.body)["effect"] == "once"


def is_inside_answered(call: Call, calls: Mapping[str, Call], body_of: Callable[[Call], bytes]) -> bool:
    """Whether an enclosing step was answered from the journal: then the whole subtree is consumed with it."""
    scope: str = loads(body_of(call))["in"]
    while scope:
        parent = calls.get(scope)
        if parent is None:
            scope = enclosing(scope)
        elif parent.taken and parent.outcomes[parent.taken - 1].good:
            return True
        else:
            scope = loads(body_of(parent))["in"]
    return False


def is_model(intent: bytes) -> bool:
    """Whether an intent is that of a model call."""
    return intent.startswith(b'{"effect":"model"')


def model_of(intent: bytes) -> list[str] | None:
    """The model and the provider that an intent names, read without the request; None where it names none."""
    found = _MODEL.search(intent, 0, _MODEL_WITHIN)
    return None if found is None or found[0] == _NAMELESS else [loads(part) for part in found.groups()]


_MODEL = re.compile(rb'"model":("(?:[^"\\]|\\.)*"),"provider":("(?:[^"\\]|\\.)*")')
_MODEL_WITHIN = 2_000
"""Where it stands in an intent: after the call's place, and before the request."""
_NAMELESS = b'"model":"","provider":""'
