"""A feature's part of a view: how it folds its own events, and what becomes of it in every change of history.

The kernel's fold knows runs, attempts, calls and points. Everything else is a ``FeatureFold``, made when its first event
comes. Snapshots, forks, compaction and pruning ask each fold for its part and name none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.model.calls import Call
    from holdfast.model.events import Event

Read = Callable[[str], bytes]
"""The content at an address."""


class Compaction(NamedTuple):
    """What a fold is given to decide what stays of it: the view, the calls that stay whole, and a reader of blobs."""

    view: "View"
    calls: "Mapping[str, Call]"
    read: Read


class FeatureFold:
    """What one feature has folded of a run's journal. Only ``add``, ``dump`` and ``load`` must be written."""

    sees_outcomes: ClassVar[bool] = False
    """Whether ``concluded`` is called for every outcome of a step."""

    def add(self, view: "View", event: "Event") -> None:
        """Fold an event that the table of folds says is this feature's; the kernel has folded it already."""
        raise NotImplementedError

    def began(self, view: "View") -> None:
        """It was just made, in the middle of a history: look back at what the kernel's part of the view has."""

    def concluded(self, event: "Event", *, good: bool) -> None:
        """A step came to an outcome."""

    def doing_at(self, event: "Event") -> str:  # noqa: ARG002 - for those that take time outside of calls
        """What the run was in the middle of as of this event; empty where it tells of something else."""
        return ""

    def finished(self) -> None:
        """The run has finished."""

    def left_origin(self, view: "View", event: "Event") -> None:
        """A fork or a rewind begins here: what came before is another history's."""

    def dump(self, *, whole: bool) -> dict[str, Any]:
        """As JSON-ready data under keys of its own; ``whole`` with what no journal will have any more."""
        raise NotImplementedError

    def load(self, data: Mapping[str, Any]) -> None:
        """From the data of a whole view. A key may be missing: an older version did not know it."""
        raise NotImplementedError

    def reduced(self, compaction: Compaction) -> Self:  # noqa: ARG002 - for those that keep less
        """What stays when the events are replaced by what they came to."""
        return self

    def shed(self, upto_seq: int, kept: Any) -> None:
        """The events up to this one were compacted under a live view; ``kept`` is what stays of them."""

    def blobs(self) -> Iterator[str]:
        """The addresses of blobs that the dumped data needs."""
        return iter(())

    def call_keys(self) -> Iterable[str]:
        """The keys of calls whose counts must stay."""
        return ()

    def difference(self, after: Any) -> str:  # noqa: ARG002 - for those that pruning must not change
        """What pruning has changed of it, in two or three words; empty where nothing that matters is another."""
        return ""


FoldT = TypeVar("FoldT", bound=FeatureFold)


class Slot(Generic[FoldT]):
    """Where views keep one feature's fold. It is defined beside the fold's class, so the kernel never names a feature."""

    def __init__(self, name: str, cls: type[FoldT]) -> None:
        self.name = name
        self.cls = cls

    def of(self, view: "View") -> FoldT:
        """The fold of this view, made now where no event of the feature came."""
        found = view.folds.get(self.name)
        if found is None:
            found = view.keep(self.name, self.cls())
        assert isinstance(found, self.cls), f"{self.name} is a {type(found).__name__}"
        return found
