"""What one attempt knows of its run's premises. It decides nothing; the rules stand in ``premising``."""

from time import time
from typing import TYPE_CHECKING, Final

from holdfast.engine.run.features import Feature
from holdfast.limits import ARTIFACTS_BYTES_MAX
from holdfast.model.premises import Judged, Policies, Premise

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun

LOADED_BY: Final = time()
"""A file of source that was written later may not be what this process runs. By the file system's clock, not the store's."""


class AttemptPremises(Feature):
    """The policies of this entry, what was found on entering, and the functions that the program has come to."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        entry = held.entry
        self.policies: Policies = (entry.premises if entry is not None else None) or {}
        self.judged: tuple[Judged, ...] = ()
        """What was found when the run was entered."""
        self.orphans: list[Judged] = []
        """Files that attempts which were killed had put in their places: they are no files that somebody changed."""
        self.copies_bytes_max = entry.artifact_bytes_max if entry is not None else ARTIFACTS_BYTES_MAX
        """What the copies of the files that the run made may come to."""
        self.met: dict[str, object] = {}
        """By the name of a step, the code that it called last: all that a call has to look at."""
        self.seen: dict[tuple[str, int], object] = {}
        self.models: set[str] = set()
        self.to_note: dict[str, list[Premise]] = {}
        """By the name of a step, what its next intent is to say."""
