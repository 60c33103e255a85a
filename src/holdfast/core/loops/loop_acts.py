"""Reduces a recorded call to (name, arguments, result) for loop detection.

It reads only the bodies of intent and outcome, so a live call and the same call read back give the same act.
Duration, position and process of a call play no part.
"""

from collections.abc import Hashable
from hashlib import sha256
from typing import Any

from orjson import dumps

from holdfast.model.event_fields import contents_of, fields_of, raw_part
from holdfast.model.loops import Act, Manner, Thresholds

Called = tuple[str, Hashable]
"""A call by its name and arguments."""


def arguments_of(key: str, intent: bytes) -> Hashable:
    """What distinguishes a call from others of its name: its arguments, or the address of long ones.

    An explicit key replaces the arguments, as in the call's identity.
    """
    if key.endswith(".k"):
        return key
    arguments = raw_part(intent, "args")
    return fields_of(intent)["args_blob"] if arguments is None else arguments


def act_of(called: Called, outcome: bytes) -> Act:
    """The act of a call with this outcome: its value, or its failure without the traceback.

    The result is only kept as Python's hash, to save memory. That hash differs in each process, so an act
    must not be stored.
    """
    return Act(*called, hash(_result(outcome)))


def digests_of(called: Called, outcome: bytes) -> Act:
    """The act with digests in the place of arguments and result: these can be stored."""
    name, arguments = called
    return Act(name, digest(arguments), digest(_result(outcome)))


def digest(part: Hashable) -> str:
    """A digest of arguments or of a result, the same in every process."""
    return sha256(part if isinstance(part, bytes) else str(part).encode()).hexdigest()[:20]


def _result(outcome: bytes) -> bytes:
    value = raw_part(outcome, "value")
    if value is not None:
        return value
    body = contents_of(outcome)
    if "error" in body:
        return dumps(["error", body["error"]["type"], body["error"]["message"]])
    return dumps(["blob", body.get("value_blob"), body.get("lost")])


def manner_of(intent: bytes) -> Manner:
    """How the tool of a call wants to be treated by loop detection, as its intent records it."""
    return manner_in(fields_of(intent).get("loops"))


def manner_in(declared: Any) -> Manner:
    """The manner as ``declared_as`` writes it."""
    return Thresholds(*declared) if isinstance(declared, list) else declared


def is_tool(intent: bytes) -> bool:
    """Whether the call is of a tool, and not a plain step of the program."""
    return fields_of(intent).get("tool") is True


def declared_as(manner: Manner) -> Any:
    """The manner as an intent records it; ``manner_of`` is the inverse."""
    return list(manner) if isinstance(manner, Thresholds) else manner
