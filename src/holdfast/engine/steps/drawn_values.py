"""Where values come from that a program cannot compute: time and chance. Drawn once, then recorded."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID, uuid4

from holdfast.clock import Clock


def now(clock: Clock) -> Callable[[], datetime]:
    """A source of the wall clock's time."""
    return lambda: datetime.fromtimestamp(clock.wall(), UTC)


def uuid() -> UUID:
    """A random UUID."""
    return uuid4()


def random() -> float:
    """A number in [0, 1); from the system, so that a program's own seed is left alone."""
    from random import SystemRandom

    return SystemRandom().random()
