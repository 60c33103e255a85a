"""The parts that a folded view is made of."""

from typing import NamedTuple

from holdfast.model.events import Event


class Attempt:
    """One process's tenure, as the journal tells it. ``how`` is None while it runs, or if nobody saw it end."""

    __slots__ = ("ended_at", "event", "how", "number")

    def __init__(self, number: int, event: Event) -> None:
        self.number = number
        self.event = event
        self.how: str | None = None
        self.ended_at: float | None = None


class Said(NamedTuple):
    """An event of the conversation: messages added at its end, the oldest dropped, or its end mended.

    A repair that somebody else made than the program names the event up to which it mends: there it belongs.
    """

    seq: int
    is_drop: bool
    body: bytes | None
    mends_upto: int | None = None

    @property
    def place(self) -> int:
        """The event behind which it counts."""
        return self.seq if self.mends_upto is None else self.mends_upto


class Site(NamedTuple):
    """How far the calls of one site were counted: the highest count in use, and the failed ones below it."""

    used: int
    free: tuple[int, ...] = ()
