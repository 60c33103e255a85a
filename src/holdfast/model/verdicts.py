"""What a tool's ``verify`` function can report about an effect that was cut off."""

from typing import Any

from holdfast.model.named_tuple import NamedTuple


class Done(NamedTuple):
    """It happened, and this is what the call would have returned."""

    value: Any = None


class NotDone(NamedTuple):
    """It did not happen."""

    reason: str = ""


class Unknown(NamedTuple):
    """The outside world does not show whether it happened."""

    reason: str = ""


Verdict = Done | NotDone | Unknown
