"""Folds the latest checkpoint of each chain that a run keeps for a framework."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import Compaction, FeatureFold, Slot
from holdfast.core.journal.snapshots import dump_event, load_event
from holdfast.model.event_fields import fields_of, is_hollow
from holdfast.model.events import Event

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class ChainFold(FeatureFold):
    """The latest checkpoint of each chain that still has its state."""

    def __init__(self) -> None:
        self.latest: dict[str, Event] = {}

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Fold a checkpoint of a chain. A hidden one was deleted, so nothing continues from it."""
        # A pruned checkpoint cannot be continued from, so the latest with a state stays the latest.
        if not is_hollow(event.body) and not (fields := fields_of(event.body)).get("hidden"):
            self.latest[fields["chain"]] = event

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """The checkpoints."""
        return {"chains": [dump_event(event) for event in self.latest.values()]}

    def load(self, data: Mapping[str, Any]) -> None:
        """The checkpoints."""
        events = [event for one in data["chains"] if (event := load_event(one)) is not None]
        self.latest = {fields_of(event.body)["chain"]: event for event in events}

    def reduced(self, compaction: Compaction) -> Self:  # noqa: ARG002 - they are in the journal
        """Keep nothing: compaction ends before the states that stay, so their events are folded again."""
        return type(self)()

    def difference(self, after: Self) -> str:
        """Pruning must not change the checkpoint that a chain continues from."""
        mine = {name: event[:7] for name, event in self.latest.items()}
        return "a chain of checkpoints" if mine != {n: event[:7] for n, event in after.latest.items()} else ""


CHAINS: Final = Slot("chains", ChainFold)
