"""The holder prunes its own run as it goes on, so that a long-running program stays bounded.

After a checkpoint, and only now and then: reading the journal costs what it is long, so it waits until the journal has
grown by a good part of that. Whatever goes wrong here is told and left for the next time: the program has its own work.
"""

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from holdfast.engine.log import log
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.state.autosave import AUTOSAVING
from holdfast.engine.state.held_states import STATES
from holdfast.errors import HoldfastError, PruneMismatch, StoreError
from holdfast.limits import PRUNE_CHECKPOINTS, PRUNE_EVENTS
from holdfast.model.events import Kind
from holdfast.model.retention import RETENTION, Retention
from holdfast.model.store_rows import Lease

if TYPE_CHECKING:
    from holdfast.core.prune.prune_plan import Compacting
    from holdfast.engine.prune.prune_run import Write
    from holdfast.engine.run.held_run import HeldRun

_GROWTH = 4
"""The journal is read again when it has grown by a fourth since."""


class Pruner(Feature):
    """Prunes one held run when it is due."""

    def __init__(self, held: "HeldRun", retention: Retention | None = None) -> None:
        super().__init__(held)
        declared = held.entry.retention if held.entry is not None else None
        self._retention = retention or declared or RETENTION
        # It wakes with the first checkpoint of this attempt, which the view does not have.
        self._states = held.view.states
        """Checkpoints with their states that the journal holds."""
        self._seen_seq = held.view.base or held.row.origin_seq
        self._seen_events = 0

    def checkpointed(self, is_between_steps: bool) -> None:
        """One more state is in the journal: see whether older ones may go."""
        self._states += 1
        journal = self.held.journal
        if is_between_steps and journal is not None and self.is_due(journal.head):
            self.prune()

    def is_due(self, head: int) -> bool:
        """Whether enough has come since the last look."""
        since = head - self._seen_seq
        if since * _GROWTH < self._seen_events:
            return False
        last = self._retention.checkpoints.last
        has_many = last is not None and self._states >= last + PRUNE_CHECKPOINTS
        return has_many or since >= PRUNE_EVENTS

    def prune(self) -> None:
        """Prune the run now, under the lease that this process holds."""
        held = self.held
        from holdfast.engine.prune.prune_run import (
            prune_run,  # brings much along that most programs never need
        )

        journal = held.journal
        if journal is None or journal.lost is not None:
            return
        self._seen_seq = journal.head
        held.note_claims()
        try:
            pruned = prune_run(
                held.store,
                held.clock,
                held.run,
                self._retention,
                journal.fence,
                stands_at=lambda: _stands_at(held),
                ready=STATES.of(held).store.let_go,
                compact=lambda compacting, write: _compact(held, compacting, write),
            )
        except PruneMismatch as refused:
            log().error("%s; %s", refused, refused.hint)
            held.put_to_sleep("pruning")
        except HoldfastError as error:
            log().warning("run %s was not pruned: %s", held.run, error)
        else:
            if pruned is not None:
                self._states = pruned.states
                self._seen_events = pruned.events
        finally:
            held.forget_claims()


def _stands_at(held: "HeldRun") -> int | None:
    """The event that the state which would be autosaved next belongs to."""
    autosave = AUTOSAVING.find(held)
    return None if autosave is None or autosave.saver is None else autosave.saver.stands_at


PRUNING: Final = Slot("pruning", Pruner)


def _compact(held: "HeldRun", compacting: "Compacting", write: "Write") -> bool:
    """Have it written, and find out whether it was where the store cannot tell: what is counted depends on it."""

    def written(sites: AbstractSet[str]) -> bool:
        try:
            return write(sites)
        except StoreError:
            seq = compacting.upto_seq
            try:
                found = held.store.read_events(held.run, after_seq=seq - 1, upto_seq=seq, limit=1)
            except StoreError:
                # Counting on without knowing could give a later call another's number: rather stop.
                assert held.journal is not None
                held.journal.lost = Lease(fence=held.journal.fence)
                raise
            if not found or found[0].kind != Kind.COMPACTED:
                raise
            return True

    return held.compact(compacting, written)
