"""What a recorded call is in the search for circles: from its intent and its outcome, as their bodies stand.

The same bodies tell the same, live and read back. How long a call took, where it stands and which process made it play
no part.
"""

from collections.abc import Hashable
from typing import Any

from orjson import dumps

from holdfast.model.event_fields import contents_of, fields_of, raw_part
from holdfast.model.loops import Act, Manner, Thresholds

Called = tuple[str, Hashable]
"""A call by its name and arguments."""


def arguments_of(key: str, intent: bytes) -> Hashable:
    """What tells a call from others of its name: its arguments, while they stand in its intent.

    An explicit key stands for the arguments, as in the call's identity.
    """
    if key.endswith(".k"):
        return key
    arguments = raw_part(intent, "args")
    return fields_of(intent)["args_blob"] if arguments is None else arguments


def act_of(called: Called, outcome: bytes) -> Act:
    """The act of a call that came to this outcome: its value, or its failure without the traceback.

    Results are told by Python's own hash, so that nothing of them is kept. That differs from process to process: an act
    is not to be written down.
    """
    value = raw_part(outcome, "value")
    if value is not None:
        return Act(*called, hash(value))
    body = contents_of(outcome)
    if "error" in body:
        return Act(*called, hash((body["error"]["type"], body["error"]["message"])))
    return Act(*called, hash((body.get("value_blob"), dumps(body.get("lost")))))


def manner_of(intent: bytes) -> Manner:
    """How the call declared itself when it was made."""
    declared: Any = fields_of(intent).get("loops")
    return Thresholds(*declared) if isinstance(declared, list) else declared


def is_tool(intent: bytes) -> bool:
    """Whether a tool was called, and not a plain step of the program's own."""
    return fields_of(intent).get("tool") is True


def declared_as(manner: Manner) -> Any:
    """The manner as it stands in an intent; see ``manner_of``."""
    return list(manner) if isinstance(manner, Thresholds) else manner
