"""What one attempt knows of its run's premises. It decides nothing; the rules stand in ``premising``."""

from time import time
from typing import Final

from holdfast.limits import ARTIFACTS_BYTES_MAX
from holdfast.model.premises import Judged, Policies, Premise

LOADED_BY: Final = time()
"""A file of source that was written later may not be what this process runs. By the file system's clock, not the store's."""


class Reliance:
    """The policies of this entry, what was found on entering, and the functions that the program has come to."""

    __slots__ = (
        "copies_bytes_max",
        "entered_seq",
        "judged",
        "last_at",
        "met",
        "models",
        "policies",
        "seen",
        "to_note",
    )

    def __init__(self) -> None:
        self.policies: Policies = {}
        self.judged: tuple[Judged, ...] = ()
        """What was found when the run was entered."""
        self.copies_bytes_max = ARTIFACTS_BYTES_MAX
        """What the copies of the files that the run made may come to."""
        self.entered_seq = 0
        self.last_at = 0.0
        """When the last thing was recorded before this attempt."""
        self.met: dict[str, object] = {}
        """By the name of a step, the code that it called last: all that a call has to look at."""
        self.seen: dict[tuple[str, int], object] = {}
        self.models: set[str] = set()
        self.to_note: dict[str, list[Premise]] = {}
        """By the name of a step, what its next intent is to say."""
