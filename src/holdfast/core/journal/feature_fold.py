"""A feature's part of a view: how it folds its own events, and what each change of history does to it.

The kernel's fold knows runs, attempts, calls and points. Everything else is a ``FeatureFold``, made when its
first event comes. Snapshots, forks, compaction and pruning call each fold and name no feature.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from holdfast.model.named_tuple import NamedTuple

if TYPE_CHECKING:
    from holdfast.core.journal.fold import View
    from holdfast.model.calls import Call
    from holdfast.model.events import Event

Read = Callable[[str], bytes]
"""Reads the blob at an address."""


class Compaction(NamedTuple):
    """What a fold needs to decide what stays: the view, the calls that stay whole, and a reader of blobs.

    ``reasoning_from`` is the first event whose reasoning the policy keeps.
    """

    view: "View"
    calls: "Mapping[str, Call]"
    read: Read
    reasoning_from: int = 0


class FeatureFold:
    """What one feature has folded of a run's journal.

    A subclass must define ``add``, ``dump`` and ``load``.
    """

    sees_outcomes: ClassVar[bool] = False
    """Whether ``concluded`` is called for every outcome of a step."""

    def add(self, view: "View", event: "Event") -> None:
        """Fold an event of this feature, as the table of folds says. The kernel has folded it already."""
        raise NotImplementedError

    def began(self, view: "View") -> None:
        """Called when the fold was just made. It may look back at the kernel's part of the view."""

    def concluded(self, event: "Event", *, good: bool) -> None:
        """Called when a step has an outcome, if ``sees_outcomes``."""

    def doing_at(self, event: "Event") -> str:  # noqa: ARG002 - for those that take time outside of calls
        """What the run was in the middle of as of this event; empty if the event is not about that."""
        return ""

    def finished(self) -> None:
        """Called when the run has finished."""

    def left_origin(self, view: "View", event: "Event") -> None:
        """Called when a fork or a rewind begins here. What came before belongs to another history."""

    def dump(self, *, whole: bool) -> dict[str, Any]:
        """The fold as JSON-ready data under its own keys.

        ``whole`` includes what the journal will soon not have.
        """
        raise NotImplementedError

    def load(self, data: Mapping[str, Any]) -> None:
        """Take its keys from the data of a whole view.

        A key may be missing, since older versions did not write it.
        """
        raise NotImplementedError

    def reduced(self, compaction: Compaction) -> Self:  # noqa: ARG002 - for those that keep less
        """What stays of the fold when compaction replaces the events with their view."""
        return self

    def shed(self, upto_seq: int, kept: Any) -> None:
        """Called when the events up to this one were compacted while the view is in use.

        ``kept`` is what stays.
        """

    def blobs(self) -> Iterator[str]:
        """The addresses of blobs that the dumped data needs."""
        return iter(())

    def call_keys(self) -> Iterable[str]:
        """The keys of calls whose counts compaction must keep."""
        return ()

    def difference(self, after: Any) -> str:  # noqa: ARG002 - for those that pruning must not change
        """What pruning would change for the program, in two or three words; empty if nothing that matters."""
        return ""


FoldT = TypeVar("FoldT", bound=FeatureFold)


class Slot(Generic[FoldT]):
    """Typed access to one feature's fold in a view.

    It is defined beside the fold's class: the kernel names no feature.
    """

    def __init__(self, name: str, cls: type[FoldT]) -> None:
        self.name = name
        self.cls = cls

    def of(self, view: "View") -> FoldT:
        """The feature's fold in this view. It is made now if the view has no event of the feature."""
        found = view.folds.get(self.name)
        if found is None:
            found = view.keep(self.name, self.cls())
        assert isinstance(found, self.cls), f"{self.name} is a {type(found).__name__}"
        return found
