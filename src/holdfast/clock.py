"""Time as a port: the wall clock for people, the monotonic clock for waiting.

Nothing else in the engine reads a clock, so tests can set one. Taking over a lease rests on the monotonic
clock alone: wall time only tells whether a holder is worth watching. How long ago another process began an
effect (``settle_s``) can only be told by wall time; a clock that jumps forward shortens that wait.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """What the engine needs of time."""

    def wall(self) -> float:
        """Seconds since the epoch, for people."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, for waiting."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        ...


class SystemClock:
    """The machine's own clocks."""

    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    @staticmethod
    def sleep(seconds: float) -> None:
        """Block this thread."""
        time.sleep(seconds)
