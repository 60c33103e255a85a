"""What a recorded call is in the search for circles: from its intent and its outcome, as their bodies stand.

The same bodies tell the same, live and read back. How long a call took, where it stands and which process made it play
no part. Bodies are cut rather than parsed: arguments and values come last in them.
"""

from collections.abc import Hashable
from typing import Any, Final

from orjson import dumps, loads

from holdfast.model.loops import Act, Manner, Thresholds

Called = tuple[str, Hashable]
"""A call by its name and arguments."""

_LATE: Final = b'"by":""}'
"""How the body ends of an outcome that came as a letter: it has more in it than a value."""

_VALUES: Final = frozenset({"value", "value_blob", "value_bytes", "lost"})


def arguments_of(key: str, intent: bytes) -> Hashable:
    """What tells a call from others of its name: its arguments, while they stand in its intent.

    An explicit key stands for the arguments, as in the call's identity.
    """
    if key.endswith(".k"):
        return key
    # A comma stands before it, and no text of anybody's can hold one followed by a bare quote.
    return intent[intent.index(b',"args') + 1 :].removeprefix(b'"args":')[:-1]


def act_of(called: Called, outcome: bytes) -> Act:
    """The act of a call that came to this outcome: its value, or its failure without the traceback.

    Results are told by Python's own hash, so that nothing of them is kept. That differs from process to process: an act
    is not to be written down.
    """
    if outcome.startswith(b'{"ms":') and not outcome.endswith(_LATE):
        return Act(*called, hash(outcome[outcome.index(b",") + 1 :]))
    body = loads(outcome)
    if "error" in body:
        return Act(*called, hash((body["error"]["type"], body["error"]["message"])))
    return Act(*called, hash(dumps({name: part for name, part in body.items() if name in _VALUES})[1:]))


def manner_of(intent: bytes) -> Manner:
    """How the call declared itself when it was made."""
    if b'"loops":' not in intent:
        return None
    declared: Any = loads(intent).get("loops")
    return Thresholds(*declared) if isinstance(declared, list) else declared


def is_tool(intent: bytes) -> bool:
    """Whether a tool was called, and not a plain step of the program's own."""
    return b'"tool":true' in intent and loads(intent).get("tool") is True


def declared_as(manner: Manner) -> Any:
    """The manner as it stands in an intent; see ``manner_of``."""
    return list(manner) if isinstance(manner, Thresholds) else manner
