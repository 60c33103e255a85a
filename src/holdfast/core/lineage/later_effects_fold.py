"""Folds the effects that other histories made after the points where this one left them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.core.journal.snapshots import dump_event, load_event
from holdfast.model.event_fields import fields_of, values_in
from holdfast.model.events import Event

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class LaterEffectsFold(FeatureFold):
    """``events`` are the forks and rewinds that list effects; ``repeats`` is the latest choice for them.

    One with ``again`` lists what is made again: the effects that it takes out of earlier lists.
    """

    def __init__(self) -> None:
        self.repeats = "answer"
        self.events: list[Event] = []

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Fold a fork or a rewind with its list of effects. Events of older versions have no list."""
        fields = fields_of(event.body)
        if "effects" in fields:
            self.events = [*self.events, event]
            if fields["effects"] != AGAIN:  # else what earlier ones list is treated as it was
                self.repeats = fields["effects"]

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """Both."""
        return {"repeats": self.repeats, "behind": [dump_event(event) for event in self.events]}

    def load(self, data: Mapping[str, Any]) -> None:
        """Both."""
        self.repeats = data.get("repeats", "answer")
        self.events = [event for one in data.get("behind", ()) if (event := load_event(one)) is not None]

    def blobs(self) -> Iterator[str]:
        """The blobs of the lists, and of the outcomes in them."""
        for event in self.events:
            yield from values_in(event.body)
            yield from fields_of(event.body).get("blobs", ())

    def difference(self, after: Self) -> str:
        """Pruning must not change which effects are known, nor what happens to them."""
        return "repeats" if self.repeats != after.repeats else "behind" if self.events != after.events else ""


AGAIN: Final = "again"
LATER_EFFECTS: Final = Slot("later_effects", LaterEffectsFold)
