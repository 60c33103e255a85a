"""Folds model calls that are under way: the latest request, and what has arrived of streamed answers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from holdfast.core.journal.feature_fold import Compaction, FeatureFold, Slot
from holdfast.model.event_fields import is_hollow
from holdfast.model.events import Event, Kind

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View


class ModelFold(FeatureFold):
    """``latest_request`` is the intent of the latest model call. What it refers to is stored already.

    ``partials`` are the answers that are not complete: per call, the bodies of their chunks.
    """

    sees_outcomes: ClassVar[bool] = True

    def __init__(self) -> None:
        self.latest_request: Event | None = None
        self.partials: dict[str, list[bytes]] = {}

    def add(self, view: "View", event: Event) -> None:  # noqa: ARG002 - the event says it all
        """Fold the beginning of a model call, or a chunk of its answer."""
        if event.kind == Kind.STEP_STARTED:
            self.latest_request = event
        elif not is_hollow(event.body):
            self.partials.setdefault(event.key, []).append(event.body)

    def concluded(self, event: Event, *, good: bool) -> None:
        """Drop the chunks of an answer that is recorded whole."""
        if good:
            self.partials.pop(event.key, None)

    def dump(self, *, whole: bool) -> dict[str, Any]:  # noqa: ARG002 - the same in both
        """The chunks."""
        return {
            "partials": {key: [body.decode() for body in bodies] for key, bodies in self.partials.items()}
        }

    def load(self, data: Mapping[str, Any]) -> None:
        """The chunks. The latest request is not kept, so the next request is stored whole."""
        self.partials = {key: [body.encode() for body in bodies] for key, bodies in data["partials"].items()}

    def reduced(self, compaction: Compaction) -> Self:
        """Keep the chunks of calls that stay."""
        kept = type(self)()
        kept.partials = {key: bodies for key, bodies in self.partials.items() if key in compaction.calls}
        return kept


MODEL: Final = Slot("model", ModelFold)
