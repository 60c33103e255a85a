"""Knows which states and model requests of a held run are stored: the next ones write only what is new."""

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.llm.model_fold import MODEL
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.state.state_store import States, lineage_of
from holdfast.model.event_fields import part_of

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.sync_async import Runtime


class HeldStates(Feature):
    """What is already stored of this run's states and model requests."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        checkpoint, intent = held.view.checkpoint, MODEL.of(held.view).latest_request
        self.store = States(held.store, held.run)
        self.latest_root: Any = None if checkpoint is None else part_of(checkpoint.body, "state")
        """The root of the latest recorded state."""
        self.latest_request = (0, None) if intent is None else (intent.seq, part_of(intent.body, "request"))
        """The intent of the latest model call, and the root of its request."""
        self.to_rebuild: tuple[str, ...] = ()
        """The paths in the restored state of values that the program has to make again."""

    async def learn_first(self, runtime: "Runtime") -> None:
        """Read what is stored.

        Before a state is taken: taking it must not wait, or the state could change.
        """
        if self.store.lineage is None:
            self.store.lineage = await runtime.store(lineage_of, self.held.store, self.held.run)
        await self.store.learn_first(runtime, self.known_roots)

    def known_roots(self) -> list[Any]:
        """The roots of the latest state and request: the next ones mostly consist of their nodes."""
        return [root for root in (self.latest_root, self.latest_request[1]) if root is not None]

    def compacted(self, upto_seq: int) -> None:
        """Forget the latest request if it was compacted: its nodes may be gone."""
        if self.latest_request[0] <= upto_seq:
            self.latest_request = 0, None


STATES: Final = Slot("states", HeldStates)
