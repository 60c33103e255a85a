"""What the model calls of a run cost, and which budget warnings it got, folded from its journal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.budget.spending import plus, read_usage
from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.core.llm.request_shapes import usage_of
from holdfast.model.budget import NOTHING_SPENT, Spent
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class BudgetFold(FeatureFold):
    """``spent`` includes what rewinds left behind, because it was paid.

    ``warned`` maps a limit to what it allowed then.
    """

    def __init__(self) -> None:
        self.spent = NOTHING_SPENT
        self.warned: dict[str, float] = {}

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Fold the usage of a model call, a warning, or a rewind."""
        if event.kind == Kind.STEP_FINISHED:
            self.spent = plus(self.spent, read_usage(event.body))
            return
        fields = fields_of(event.body)
        if event.kind == Kind.BUDGET_WARNED:
            self.warned = {**self.warned, event.name: fields["allowed"]}
        elif event.kind == Kind.RUN_REWOUND:
            self.spent = Spent(*fields["spent"]) if "spent" in fields else self.spent
        elif fields.get("via") != "origin":  # a fork settled this call from its origin, which paid for it
            self.spent = plus(self.spent, usage_of(fields["usage"]))

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Both."""
        return {"spent": [*self.spent], "warned": self.warned}

    def load(self, data: Mapping[str, Any]) -> None:
        """Both."""
        self.spent, self.warned = Spent(*data.get("spent", ())), data.get("warned", {})

    def difference(self, after: Self) -> str:
        """Pruning must not change what was spent."""
        return "spent" if self.spent != after.spent else "warned" if self.warned != after.warned else ""


BUDGET: Final = Slot("budget", BudgetFold)
