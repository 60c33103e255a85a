"""A clock that a test moves: waiting takes no time, and days pass in a call.

``faulty_store(url, clock=FakeClock())`` gives a store whose runs read it. It knows time only; nothing real
waits for it, so a thread that sleeps on it returns at once.
"""

from typing import Final

_BEGIN: Final = 1_700_000_000.0


class FakeClock:
    """Implements ``holdfast.clock.Clock``: time passes when a run sleeps, or when the test says so."""

    def __init__(self, at: float = _BEGIN) -> None:
        """``at`` is the wall time in seconds since the epoch."""
        self.at = at
        self.slept_s = 0.0
        """How long all runs have slept together."""
        self._monotonic = 0.0

    def wall(self) -> float:
        """Seconds since the epoch."""
        return self.at

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        """Return at once; that much later."""
        self.slept_s += seconds
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let this much time pass."""
        self.at += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator does; the monotonic clock does not move."""
        self.at += seconds
