"""Reports attempts and calls of this process to an observer, for traces and metrics.

An observer changes nothing and decides nothing. There is none unless the program installs one; then each run
that is entered asks it for an observer of that attempt. Without one, a run pays for a comparison with None.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import RunRow

if TYPE_CHECKING:
    from holdfast.engine.steps.call_identity import RequestedCall
    from holdfast.engine.steps.step import Work
    from holdfast.model.calls import Outcome

SAID: Final = "attended"
"""The field of an attempt's event with what its observer wants to keep."""


class Beginning(NamedTuple):
    """An attempt that is about to begin."""

    run: str
    birth: str
    """The run's random birth id: the same in all of its attempts, and in no other run."""
    agent: str
    number: int
    before: Mapping[str, Any]
    """What the observer of the attempt before recorded; empty if there was none."""


class AttemptObserver(Protocol):
    """Observes one attempt. It should not raise: its errors would be raised in the program."""

    @property
    def said(self) -> Mapping[str, Any]:
        """What is recorded with the attempt, for the observer of the next one."""
        ...

    def began(self, work: "Work") -> None:
        """A call is about to be made, in this task or thread."""
        ...

    def ended(self, work: "Work", error: BaseException | None) -> None:
        """The call is over for the program; ``error`` is what it raises, if anything."""
        ...

    def replayed(self, asked: "RequestedCall", outcome: "Outcome") -> None:
        """A call was answered from the journal."""
        ...

    def recorded(self, events: Sequence[Event]) -> None:
        """These events are in the journal now."""
        ...

    def left(self, status: str, error: BaseException | None) -> None:
        """The attempt is over."""
        ...


class Observer(Protocol):
    """Makes an observer for each attempt."""

    def attend(self, beginning: Beginning) -> AttemptObserver:
        """The observer of this attempt."""
        ...


class _Place:
    """Holds the observer of this process."""

    observer: Observer | None = None


def put(observer: Observer | None) -> Observer | None:
    """Install an observer for runs that are entered from now on; returns the one before."""
    before, _Place.observer = _Place.observer, observer
    return before


def attend(row: RunRow, view: View) -> AttemptObserver | None:
    """An observer of the next attempt of this run; None if none is installed."""
    if _Place.observer is None:
        return None
    before = contents_of(view.attempts[-1].event.body).get(SAID, {}) if view.attempts else {}
    return _Place.observer.attend(Beginning(row.run, row.birth, row.agent, view.next_attempt, before))


def gone(observer: AttemptObserver | None, status: str, error: BaseException | None) -> None:
    """Report the end of the attempt."""
    if observer is not None:
        observer.left(status, error)
