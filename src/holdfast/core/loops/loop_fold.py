"""The signs of a loop that a run was given, folded from its journal, in the order in which they were given."""

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
    """The signs, each at the outcome that called for it."""

    def __init__(self) -> None:
        self.signs: list[Signed] = []

    def add(self, view: "View", event: Event) -> None:
        """A sign; the end of a loop; or an attempt after a pause: a person looked at the agent and lets it go on."""
        if event.kind == Kind.LOOP_NOTICED:
            body = contents_of(event.body)
            # It comes in the append of the outcome that called for it, right behind it.
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
        """The latest of each level."""
        kept = type(self)()
        kept.signs = sorted({signed.level: signed for signed in self.signs}.values(), key=lambda s: s.seq)
        return kept

    def difference(self, after: Self) -> str:
        """The model is given the same nudge."""
        return "what the model was told" if nudge_in(self.signs) != nudge_in(after.signs) else ""


LOOPS: Final = Slot("loops", LoopFold)
