"""What a run may spend on model calls, and what it has spent."""

from typing import Final, Literal, get_args

from holdfast.model.named_tuple import NamedTuple

WhenUnknown = Literal["warn", "stop"]
WHEN_UNKNOWN: Final[tuple[str, ...]] = get_args(WhenUnknown)


class Budget(NamedTuple):
    """What a run may spend over all its attempts, including the borrowed history of a fork.

    It warns once at ``warn_at`` of a limit; at the limit, the run is parked before the next model call.
    ``tokens`` are those of requests and answers together, ``cost`` is in US dollars, ``wall_s`` the time of
    the attempts without the pauses between them. ``unknown`` says what to do if a call's tokens or cost are
    unknown, so that the limit cannot be kept: warn once, or stop.
    """

    tokens: int | None = None
    cost: float | None = None
    calls: int | None = None
    wall_s: float | None = None
    warn_at: float = 0.8
    unknown: WhenUnknown = "warn"


class Spent(NamedTuple):
    """Usage and cost of answered model calls.

    Unknown usage is in no sum: the call is counted as unknown instead.

    ``input_tokens`` include the cached ones; ``cost`` is in US dollars.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    unknown_cost_calls: int = 0
    unknown_token_calls: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of requests and answers together, as far as they are known."""
        return self.input_tokens + self.output_tokens


NOTHING_SPENT: Final = Spent()
