"""Whoever looks on while runs are held in this process: told of attempts and calls as they happen, for traces and the like.

An onlooker changes nothing and decides nothing. There is none unless somebody has put one there; then a run asks it once,
when it is entered, for someone to attend this attempt. All that it costs a run without one is a look at a None.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from holdfast.core.journal.fold import View
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Event
from holdfast.model.store_rows import RunRow

if TYPE_CHECKING:
    from holdfast.engine.steps.call_identity import RequestedCall
    from holdfast.engine.steps.step import Work
    from holdfast.model.calls import Outcome

SAID: Final = "attended"
"""Where an attempt has what its attendant said."""


class Beginning(NamedTuple):
    """An attempt that is about to begin."""

    run: str
    birth: str
    """The run's own, given when it was made: the same in all of its attempts, and in no other run."""
    agent: str
    number: int
    before: Mapping[str, Any]
    """What the attendant of the attempt before it said; nothing where there was none."""


class AttemptObserver(Protocol):
    """Someone who attends one attempt. What it raised would be raised in the program: it should not."""

    @property
    def said(self) -> Mapping[str, Any]:
        """What is to be recorded with the attempt, for the attendant of the next one."""
        ...

    def began(self, work: "Work") -> None:
        """A call is about to be made, in the task or thread that this is told in."""
        ...

    def ended(self, work: "Work", error: BaseException | None) -> None:
        """The call is over as far as the program goes; with this raised, if anything is."""
        ...

    def replayed(self, asked: "RequestedCall", outcome: "Outcome") -> None:
        """A call was answered from the journal."""
        ...

    def recorded(self, events: Sequence[Event]) -> None:
        """This is in the journal now."""
        ...

    def left(self, status: str, error: BaseException | None) -> None:
        """The attempt is over."""
        ...


class Observer(Protocol):
    """Who is asked when a run is entered."""

    def attend(self, beginning: Beginning) -> AttemptObserver:
        """Someone for this attempt."""
        ...


class _Place:
    """Where the onlooker of this process stands."""

    observer: Observer | None = None


def put(observer: Observer | None) -> Observer | None:
    """Have this one look on, at runs that are entered from now on; who did before."""
    before, _Place.observer = _Place.observer, observer
    return before


def attend(row: RunRow, view: View) -> AttemptObserver | None:
    """Someone to attend the next attempt of this run; None where nobody looks on."""
    if _Place.observer is None:
        return None
    before = contents_of(view.attempts[-1].event.body).get(SAID, {}) if view.attempts else {}
    return _Place.observer.attend(Beginning(row.run, row.birth, row.agent, view.next_attempt, before))


def gone(observer: AttemptObserver | None, status: str, error: BaseException | None) -> None:
    """The attempt that was attended is over."""
    if observer is not None:
        observer.left(status, error)
