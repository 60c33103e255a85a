"""What one attempt knows of its run's premises. It decides nothing; the rules are in ``premises``."""

from time import time
from typing import TYPE_CHECKING, Final

from holdfast.engine.run.features import Feature
from holdfast.limits import ARTIFACTS_BYTES_MAX
from holdfast.model.premises import Judged, Policies, Premise

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun

LOADED_BY: Final = time()
"""A source file written later may not be what this process runs.

Compared with file times, so not the store's clock.
"""


class AttemptPremises(Feature):
    """The policies of this attempt, its findings, and the functions that the program has called."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        entry = held.entry
        self.policies: Policies = (entry.premises if entry is not None else None) or {}
        self.judged: tuple[Judged, ...] = ()
        """The verdicts of the check when the run was opened."""
        self.orphans: list[Judged] = []
        """Files that killed attempts have written and not recorded. They are not foreign changes."""
        self.copies_bytes_max = entry.artifact_bytes_max if entry is not None else ARTIFACTS_BYTES_MAX
        """The limit for the copies of all files that the run makes."""
        self.met: dict[str, object] = {}
        """By step name, the code that it called last. Most calls compare only this."""
        self.seen: dict[tuple[str, int], object] = {}
        self.models: set[str] = set()
        self.to_note: dict[str, list[Premise]] = {}
        """By step name, the new premises for its next intent."""
