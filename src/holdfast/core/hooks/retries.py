"""Decides when a failed delivery is tried again, and when it is given up."""

from holdfast.limits import HOOK_PAUSE_S, HOOK_PAUSE_S_MAX, HOOK_TRIES_MAX
from holdfast.model.hooks import Sent


def next_try_at(tries: int, now: float, sent: Sent) -> float | None:
    """When to try again after this many tries; None to give up.

    The pauses grow from seconds to hours: a receiver that restarts is reached soon, and one that is gone is
    not asked all day. A receiver may ask for a longer pause, up to the longest.
    """
    if sent.is_final or tries >= HOOK_TRIES_MAX:
        return None
    pause_s = min(HOOK_PAUSE_S * 4.0 ** (tries - 1), HOOK_PAUSE_S_MAX)
    return now + max(pause_s, min(sent.later_s, HOOK_PAUSE_S_MAX))
