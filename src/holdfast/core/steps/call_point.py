"""The place of a call: its scope, the call before it in its task, and the path of the root task.

The path is a running hash of the calls that the root task has finished, without their counts. So a program
that runs again with the same answers has the same path at the same place, however its other tasks are
scheduled. Other tasks have no path, because two of them may swap the counts of equal calls between two
attempts.
"""

from typing import Final

from holdfast.model.named_tuple import NamedTuple

UNKNOWN_AFTER = "?"
"""The place of a call from a thread without context. It is unknown, so drift detection does not use it."""

NO_PATH: Final = -1
"""The call is not of the root task, or an older version recorded the state that the program began with."""
ROOT_PATH: Final = 1
"""The path at the beginning of the root task."""
MASK: Final = (1 << 63) - 1  # a signed 64-bit number, which all our JSON readers keep exactly
SITE_CHARS: Final = 20
"""How many characters of a call's key are its site, a hash; the rest is the count of the call."""
NEXT: Final = 0x9E3779B97F4A7C15
_INSIDE: Final = 0xC2B2AE3D27D4EB4F


class Point(NamedTuple):
    """The place of a call: its scope, the call before it, and whether it is the first of a new task."""

    scope: str
    after: str
    forked: bool
    path: int = NO_PATH


def path_inside(path: int, key: str) -> int:
    """The path at the beginning of a call's body. After the call, the calls inside it do not count."""
    return path if path < 0 else (path * _INSIDE + int(key.partition(".")[0], 16)) & MASK
