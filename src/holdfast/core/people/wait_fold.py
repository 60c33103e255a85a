"""Folds what a run waits for."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.core.journal.feature_fold import FeatureFold, Slot
from holdfast.model.calls import Outcome
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event, Kind
from holdfast.model.waits import SLEEP, Waiting

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class WaitFold(FeatureFold):
    """The open waits, by the key of the call that waits."""

    def __init__(self) -> None:
        self.open: dict[str, Waiting] = {}

    def add(self, view: "View", event: Event) -> None:
        """Fold the beginning or the end of a wait. The end of a sleep is an outcome for the program."""
        if event.kind == Kind.WAIT_ENDED:
            self.open.pop(event.key, None)
            if event.name == SLEEP:
                view.give(event.key, event.name, Outcome(event.seq, True, view.points, event.body))
            return
        body = contents_of(event.body)
        self.open[event.key] = Waiting(
            event.key,
            event.name,
            event.seq,
            body["for"],
            body.get("what", ""),
            body.get("why", ""),
            body["since"],
            body.get("until"),
        )
        view.trailing_failures = []

    def finished(self) -> None:
        """Close the open waits: the program finished without them."""
        self.open = {}

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """The waits."""
        return {"waits": [list(waiting) for waiting in self.open.values()]}

    def load(self, data: Mapping[str, Any]) -> None:
        """The waits."""
        self.open = {fields[0]: Waiting(*fields) for fields in data["waits"]}

    def call_keys(self) -> Iterable[str]:
        """The calls that wait: a resumed program must find them under the same count."""
        return self.open

    def difference(self, after: Self) -> str:
        """Pruning must not change what the run waits for."""
        return "waits" if self.open != after.open else ""


WAITS: Final = Slot("waits", WaitFold)
