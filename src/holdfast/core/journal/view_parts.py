"""Small parts of a folded view: attempts, and the counts of sites."""

from typing import NamedTuple

from holdfast.model.events import Event


class Attempt:
    """The work of one process on a run. ``how`` is None while it runs, and if no event says how it ended."""

    __slots__ = ("ended_at", "event", "how", "number")

    def __init__(self, number: int, event: Event) -> None:
        self.number = number
        self.event = event
        self.how: str | None = None
        self.ended_at: float | None = None


class Site(NamedTuple):
    """How far the calls of one site were counted: the highest count in use, and the counts that failed."""

    used: int
    free: tuple[int, ...] = ()
