"""How long to wait for a provider that does not answer, and what to do meanwhile."""

from typing import Final, Literal

from holdfast.model.named_tuple import NamedTuple

OutageKind = Literal[
    "unreachable", "unavailable", "loading", "stalled", "cut_off", "rate_limited", "quota", "garbled"
]


class Outage(NamedTuple):
    """Why a provider does not answer now. ``until`` is the time that it named itself."""

    kind: OutageKind
    why: str
    until: float | None = None


class Patience(NamedTuple):
    """How a run waits for its provider: it retries after ``first_s``, then less often, up to ``longest_s``.

    ``give_up_s`` ends the wait for all providers together, with the error of the last one; None waits without
    limit. A limit that is reset later than ``park_s`` parks the run instead of keeping a process waiting.
    ``tries`` bounds the repetitions after useless answers, since a useful one may never come. If there are
    other providers, the next one is asked after ``fall_back_s``. A stream that is silent for ``stall_s``
    counts as broken.
    """

    first_s: float = 1.0
    longest_s: float = 30.0
    give_up_s: float | None = None
    park_s: float | None = 300.0
    tries: int = 3
    fall_back_s: float = 30.0
    stall_s: float | None = 120.0


PATIENCE: Final = Patience()
