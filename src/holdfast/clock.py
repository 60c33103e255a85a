"""Time as a port: the wall clock for people, the monotonic clock for waiting.

Nothing else in the package reads a clock, so tests can set one. Wall time is only ever recorded or shown;
no decision about leases or waiting rests on it.
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
