"""The handoff that a run began with, and which of the giver's effects the program has claimed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.core.journal.snapshots import dump_event, load_event
from holdfast.model.event_fields import fields_of, values_in
from holdfast.model.events import Event, Kind

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class HandoffFold(FeatureFold):
    """``handed`` is None if the run began without a handoff.

    ``claimed`` are numbers of effects in its document.
    """

    def __init__(self) -> None:
        self.handed: Event | None = None
        self.claimed: set[int] = set()

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Fold the handoff that the run began with, or a call that claims an effect of the giver."""
        if event.kind == Kind.STEP_STARTED:
            self.claimed.add(fields_of(event.body)["handed"]["n"])
        else:
            self.handed = event

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Both."""
        return {"handed": dump_event(self.handed), "claimed": sorted(self.claimed)}

    def load(self, data: Mapping[str, Any]) -> None:
        """Both."""
        self.handed, self.claimed = load_event(data.get("handed")), set(data.get("claimed", ()))

    def blobs(self) -> Iterator[str]:
        """The blob of the document."""
        yield from values_in(self.handed.body if self.handed else b"")

    def difference(self, after: Self) -> str:
        """Pruning must not change which effects are known and claimed."""
        if self.claimed != after.claimed:
            return "claimed"
        mine, its = self.handed, after.handed
        return "handed" if (mine and mine[:7]) != (its and its[:7]) else ""


HANDOFF: Final = Slot("handoff", HandoffFold)


def beginning_upto(events: Sequence[Event]) -> int:
    """The last event of what a run was given when it began with a handoff; 0 if it did not.

    ``events`` are its first ones. All of the beginning was written by one append, under a fence of its own.
    """
    if not events or events[0].kind != Kind.RUN_STARTED or "handed_over" not in fields_of(events[0].body):
        return 0
    return max(event.seq for event in events if event.fence == events[0].fence)
