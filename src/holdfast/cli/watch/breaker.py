"""When to restart a crashed command, and when to give up: backoff with jitter, and a circuit breaker."""

from collections.abc import Callable
from random import random
from typing import Final

WINDOW_S: Final = 600.0
"""How long a crash counts against the command."""
DELAY_S_MAX: Final = 60.0
_DOUBLINGS_MAX: Final = 32
_JITTER: Final = 0.2


class Breaker:
    """Counts crashes without progress. ``chance`` returns a number from 0 to 1."""

    def __init__(self, *, crashes_max: int, backoff_s: float, chance: Callable[[], float] = random) -> None:
        self.crashes_max = crashes_max
        self._backoff_s = backoff_s
        self._chance = chance
        self._crashes_at: list[float] = []

    @property
    def crashes(self) -> int:
        """How many crashes count now."""
        return len(self._crashes_at)

    def crashed(self, at: float, *, got_on: bool) -> float | None:
        """The seconds to wait before the next start; None to give up. Progress resets the count."""
        recent = [before for before in self._crashes_at if at - before < WINDOW_S]
        self._crashes_at = [] if got_on else [*recent, at]
        if self.crashes >= self.crashes_max:
            return None
        delay_s = self._backoff_s * (1 << min(max(0, self.crashes - 1), _DOUBLINGS_MAX))
        # Jitter: commands that crashed together, from one cause, must not all restart together.
        return min(delay_s, DELAY_S_MAX) * (1 - _JITTER + 2 * _JITTER * self._chance())
