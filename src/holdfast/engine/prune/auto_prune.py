"""Prunes a run while its holder works on it, so that the journal of a long-running program stays bounded.

It prunes after a checkpoint, and only now and then: to read the journal costs time in proportion to its
length, so it waits until the journal has grown by a quarter. A failure is logged and left for the next time:
it must not disturb the program.
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
"""The journal is read again when it has grown by one part in so many."""


class Pruner(Feature):
    """Prunes one held run when it is due."""

    def __init__(self, held: "HeldRun", retention: Retention | None = None) -> None:
        super().__init__(held)
        declared = held.entry.retention if held.entry is not None else None
        self._retention = retention or declared or RETENTION
        # The feature is created at the first checkpoint of the attempt, which the view does not have yet.
        self._states = held.view.states
        """The number of checkpoints whose states the journal still has."""
        self._seen_seq = held.view.base or held.row.origin_seq
        self._seen_events = 0

    def checkpointed(self, is_between_steps: bool) -> None:
        """Count a new state, and prune if it is time."""
        self._states += 1
        journal = self.held.journal
        if is_between_steps and journal is not None and self.is_due(journal.head):
            self.prune()

    def is_due(self, head: int) -> bool:
        """Whether the journal has grown enough since it was last read."""
        since = head - self._seen_seq
        if since * _GROWTH < self._seen_events:
            return False
        last = self._retention.checkpoints.last
        has_many = last is not None and self._states >= last + PRUNE_CHECKPOINTS
        return has_many or since >= PRUNE_EVENTS

    def prune(self) -> None:
        """Prune the run now, under the lease that this process holds."""
        held = self.held
        from holdfast.engine.prune.prune_run import prune_run  # late: most programs never prune

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
        except PruneMismatch as refused:  # a defect in the plan: every further try in this attempt would fail
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
    """The event of the state that autosave would save next."""
    autosave = AUTOSAVING.find(held)
    return None if autosave is None or autosave.saver is None else autosave.saver.stands_at


PRUNING: Final = Slot("pruning", Pruner)


def _compact(held: "HeldRun", compacting: "Compacting", write: "Write") -> bool:
    """Write a compacted event.

    If the store fails, find out whether it was written: the call counters depend on it.
    """

    def written(sites: AbstractSet[str]) -> bool:
        try:
            return write(sites)
        except StoreError:
            seq = compacting.upto_seq
            try:
                found = held.store.read_events(held.run, after_seq=seq - 1, upto_seq=seq, limit=1)
            except StoreError:
                # Not known. To continue could give a later call the number of another one, so the run stops.
                assert held.journal is not None
                held.journal.lost = Lease(fence=held.journal.fence)
                raise
            if not found or found[0].kind != Kind.COMPACTED:
                raise
            return True

    return held.compact(compacting, written)
