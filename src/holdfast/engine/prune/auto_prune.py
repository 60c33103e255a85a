"""The holder prunes its own run as it goes on, so that a long-running program stays bounded.

After a checkpoint, and only now and then: reading the journal costs what it is long, so it waits until the journal has
grown by a good part of that. Whatever goes wrong here is told and left for the next time: the program has its own work.
"""

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from holdfast.engine.run.log import log
from holdfast.errors import HoldfastError, PruneMismatch, StoreError
from holdfast.limits import PRUNE_CHECKPOINTS, PRUNE_EVENTS
from holdfast.model.events import Kind
from holdfast.model.retention import Retention
from holdfast.model.store_rows import Lease

if TYPE_CHECKING:
    from holdfast.core.prune.prune_plan import Compacting
    from holdfast.engine.prune.prune_run import Write
    from holdfast.engine.run.held_run import Tenure

_GROWTH = 4
"""The journal is read again when it has grown by a fourth since."""


class Pruner:
    """Prunes one tenure's run when it is due."""

    def __init__(self, retention: Retention, *, states: int, base: int) -> None:
        self._retention = retention
        self._states = states
        """Checkpoints with their states that the journal holds."""
        self._seen_seq = base
        self._seen_events = 0

    def note_checkpoint(self) -> None:
        """One more state is in the journal."""
        self._states += 1

    def is_due(self, head: int) -> bool:
        """Whether enough has come since the last look."""
        since = head - self._seen_seq
        if since * _GROWTH < self._seen_events:
            return False
        last = self._retention.checkpoints.last
        has_many = last is not None and self._states >= last + PRUNE_CHECKPOINTS
        return has_many or since >= PRUNE_EVENTS

    def prune(self, tenure: "Tenure") -> None:
        """Prune the run now, under the lease that this process holds."""
        from holdfast.engine.prune.prune_run import (
            prune_run,  # brings much along that most programs never need
        )

        journal = tenure.journal
        if journal is None or journal.lost is not None:
            return
        self._seen_seq = journal.head
        tenure.note_claims()
        try:
            pruned = prune_run(
                tenure.store,
                tenure.clock,
                tenure.run,
                self._retention,
                journal.fence,
                stands_at=lambda: tenure.autosaver.stands_at if tenure.autosaver else None,
                ready=tenure.states.let_go,
                compact=lambda compacting, write: _compact(tenure, compacting, write),
            )
        except PruneMismatch as refused:
            log().error("%s; %s", refused, refused.hint)
            tenure.pruner = None
        except HoldfastError as error:
            log().warning("run %s was not pruned: %s", tenure.run, error)
        else:
            if pruned is not None:
                self._states = pruned.states
                self._seen_events = pruned.events
        finally:
            tenure.forget_claims()


def _compact(tenure: "Tenure", compacting: "Compacting", write: "Write") -> bool:
    """Have it written, and find out whether it was where the store cannot tell: what is counted depends on it."""

    def written(sites: AbstractSet[str]) -> bool:
        try:
            return write(sites)
        except StoreError:
            seq = compacting.upto_seq
            try:
                found = tenure.store.read_events(tenure.run, after_seq=seq - 1, upto_seq=seq, limit=1)
            except StoreError:
                # Counting on without knowing could give a later call another's number: rather stop.
                assert tenure.journal is not None
                tenure.journal.lost = Lease(fence=tenure.journal.fence)
                raise
            if not found or found[0].kind != Kind.COMPACTED:
                raise
            return True

    return tenure.compact(compacting, written)
