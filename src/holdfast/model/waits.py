"""A wait: what a run waits for, since when, and until when if that is known."""

from typing import Final

from holdfast.model.named_tuple import NamedTuple

SLEEP: Final = "sleep"
"""The name of a wait that is a call of the program; every other one belongs to the call with its key."""


class Waiting(NamedTuple):
    """A wait that is not over.

    ``reason`` is ``time`` or ``provider``; ``until`` a wall time, None if unknown.
    """

    key: str
    name: str
    seq: int
    reason: str
    what: str
    why: str
    since: float
    until: float | None
