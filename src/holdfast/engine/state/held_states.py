"""The states and requests that one held run has recorded, so that the next ones write only what is new."""

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.llm.model_fold import MODEL
from holdfast.engine.run.features import Feature, Slot
from holdfast.engine.state.state_store import States, lineage_of
from holdfast.model.event_fields import part_of

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun
    from holdfast.engine.sync_async import Runtime


class HeldStates(Feature):
    """What is stored already of this run's states and model requests."""

    def __init__(self, held: "HeldRun") -> None:
        super().__init__(held)
        checkpoint, intent = held.view.checkpoint, MODEL.of(held.view).latest_request
        self.store = States(held.store, held.run)
        self.latest_root: Any = None if checkpoint is None else part_of(checkpoint.body, "state")
        """The state as last recorded."""
        self.latest_request = (0, None) if intent is None else (intent.seq, part_of(intent.body, "request"))
        """The event of the model call that began last, and the root of its request."""
        self.to_rebuild: tuple[str, ...] = ()
        """The places of the restored state that the program has to make anew."""

    async def learn_first(self, runtime: "Runtime") -> None:
        """Read what is stored already before a state is taken, which happens at once and must not wait."""
        if self.store.lineage is None:
            self.store.lineage = await runtime.store(lineage_of, self.held.store, self.held.run)
        await self.store.learn_first(runtime, self.known_roots)

    def known_roots(self) -> list[Any]:
        """The state and the request as last recorded: most of the next ones is stored with them."""
        return [root for root in (self.latest_root, self.latest_request[1]) if root is not None]

    def compacted(self, upto_seq: int) -> None:
        """The request may be gone."""
        if self.latest_request[0] <= upto_seq:
            self.latest_request = 0, None


STATES: Final = Slot("states", HeldStates)
