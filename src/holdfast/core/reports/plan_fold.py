"""Folds the plan that a program declared last."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.core.journal.snapshots import dump_event, load_event
from holdfast.model.event_fields import values_in
from holdfast.model.events import Event

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class PlanFold(FeatureFold):
    """The latest plan; ``event`` is None if the program has none."""

    def __init__(self) -> None:
        self.event: Event | None = None

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Replace the plan by this one."""
        if event.key:
            self.event = event

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """The event."""
        return {"plan": dump_event(self.event)}

    def load(self, data: Mapping[str, Any]) -> None:
        """The event."""
        self.event = load_event(data.get("plan"))

    def blobs(self) -> Iterator[str]:
        """The blob of a long plan."""
        yield from values_in(self.event.body if self.event else b"")

    def difference(self, after: Self) -> str:
        """Pruning must not change the plan."""
        mine, its = self.event, after.event
        return "plan" if (mine and mine[:7]) != (its and its[:7]) else ""


PLAN: Final = Slot("plan", PlanFold)
