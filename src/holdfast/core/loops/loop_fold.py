"""The signs of loops that a run's journal records, in their order."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import Compaction, FeatureFold, Slot
from holdfast.core.loops.fast_check import nudge_in
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind
from holdfast.model.loops import Signed

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class LoopFold(FeatureFold):
    """The signs, each with the seq of the outcome that caused it."""

    def __init__(self) -> None:
        self.signs: list[Signed] = []

    def add(self, view: "View", event: Event) -> None:
        """Fold a sign, the end of a loop, or a new attempt.

        After a pause, a new attempt means: a person let it continue.
        """
        if event.kind == Kind.LOOP_NOTICED:
            body = contents_of(event.body)
            # The sign is in the same append as the outcome that caused it, directly behind it.
            self.signs.append(Signed(view.last_outcome_seq, body["level"], body["text"]))
        elif event.kind == Kind.LOOP_LEFT:
            self.signs.append(Signed(view.last_outcome_seq, "left"))
        elif self.signs and self.signs[-1].level == "pause":
            self.signs.append(Signed(view.last_outcome_seq, "again"))

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """The signs."""
        return {"signs": [list(signed) for signed in self.signs]}

    def load(self, data: Mapping[str, Any]) -> None:
        """The signs."""
        self.signs = [Signed(*fields) for fields in data["signs"]]

    def reduced(self, compaction: Compaction) -> Self:  # noqa: ARG002 - it depends on the signs alone
        """Keep the latest sign of each level."""
        kept = type(self)()
        kept.signs = sorted({signed.level: signed for signed in self.signs}.values(), key=lambda s: s.seq)
        return kept

    def difference(self, after: Self) -> str:
        """Pruning must not change the nudge that the model gets."""
        return "the nudge for the model" if nudge_in(self.signs) != nudge_in(after.signs) else ""


LOOPS: Final = Slot("loops", LoopFold)
