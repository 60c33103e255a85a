"""The parts that a folded view is made of."""

from typing import NamedTuple

from holdfast.model.events import Event


class Attempt:
    """One process's held run, as the journal tells it. ``how`` is None while it runs, or if nobody saw it end."""

    __slots__ = ("ended_at", "event", "how", "number")

    def __init__(self, number: int, event: Event) -> None:
        self.number = number
        self.event = event
        self.how: str | None = None
        self.ended_at: float | None = None


class Site(NamedTuple):
    """How far the calls of one site were counted: the highest count in use, and the failed ones below it."""

    used: int
    free: tuple[int, ...] = ()
