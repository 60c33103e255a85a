"""Sources of values that a program cannot compute: time and chance. ``marks.draw`` records each once."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID, uuid4

from holdfast.clock import Clock


def now(clock: Clock) -> Callable[[], datetime]:
    """A function that returns the wall clock's time."""
    return lambda: datetime.fromtimestamp(clock.wall(), UTC)


def uuid() -> UUID:
    """A random UUID."""
    return uuid4()


def random() -> float:
    """A number in [0, 1), from the system: the program's own ``random`` state does not change."""
    from random import SystemRandom

    return SystemRandom().random()
