"""What the store tells about one start of the command: which runs it worked on, where they stand, whether it got on.

Progress is an outcome that was not there before: a step's result, a mark, a checkpoint. That an attempt began, that a
step began or failed, is recorded anew at every crash, and would count a run that dies at one spot for ever as getting on.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.api.store.store import Store, find_store
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.wait_fold import WAITS
from holdfast.errors import StoreError
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.run_info import RunInfo

_EVERYTHING: Final = 1 << 40
_OUTCOMES: Final = frozenset(
    {
        Kind.STEP_FINISHED,
        Kind.MARK,
        Kind.CHECKPOINT,
        Kind.WAIT_ENDED,
        Kind.QUESTION_ANSWERED,
        Kind.RUN_FINISHED,
    }
)


class Standing(NamedTuple):
    """A run that the command worked on, and where it stands. ``until`` is the time that a parked one waits for."""

    run: str
    status: str
    until: float | None = None


class Work(NamedTuple):
    """What one start of the command did. ``problem``: why the store could not be asked; empty if it could."""

    runs: tuple[Standing, ...] = ()
    got_on: bool = False
    problem: str = ""


class Books:
    """A store, looked at before and after each start. There may be none yet: the first run makes it."""

    def __init__(self, url: str | None) -> None:
        """Look for the first time. Raises what opening raises: later, a store that fails does not end the watch."""
        self._url = url
        self._store: Store | None = None
        self._heads = self._look()

    def begin(self) -> None:
        """Note how far every run is, before a start."""
        try:
            self._heads = self._look()
        except StoreError:  # then those of the start before: more counts as worked on, nothing is overlooked
            return

    def work(self, pid: int) -> Work:
        """What was recorded since ``begin`` by the process with this id, or by those that it started."""
        try:
            found = [(info, self._new_events(info)) for info in self._infos() if self._has_grown(info)]
        except StoreError as error:
            return Work(problem=str(error))
        begun = [(info, events) for info, events in found if _owners(events)]
        # Behind a wrapper (`uv run`, a container) the process that works is another: then whoever began meanwhile.
        ours = [(info, events) for info, events in begun if str(pid) in _owners(events)] or begun
        runs = tuple(Standing(info.run, info.status, self._until(info)) for info, _ in ours)
        return Work(runs, any(_is_outcome(event) for _, events in ours for event in events))

    def _until(self, info: RunInfo) -> float | None:
        """When a parked run can go on by itself; None where it waits for somebody, or nobody knows."""
        if info.status != "parked":
            return None
        assert self._store is not None, "a run without a store"
        view = self._store.view(info.run)
        times = [waiting.until for waiting in WAITS.of(view).open.values()]
        return (
            max((at for at in times if at is not None), default=None) if not QUESTIONS.of(view).open else None
        )

    def _look(self) -> dict[str, int]:
        return {info.run: info.head for info in self._infos()}

    def _infos(self) -> list[RunInfo]:
        self._store = self._store or find_store(self._url)
        return self._store.runs(limit=_EVERYTHING) if self._store else []

    def _has_grown(self, info: RunInfo) -> bool:
        return info.head > self._heads.get(info.run, 0)

    def _new_events(self, info: RunInfo) -> list[Event]:
        assert self._store is not None, "a run without a store"
        return self._store.events(info.run, after_seq=self._heads.get(info.run, 0))


def _owners(events: Sequence[Event]) -> set[str]:
    """The process ids of the attempts that begin in these events."""
    begun = (fields_of(event.body)["owner"] for event in events if event.kind == Kind.ATTEMPT_STARTED)
    return {str(owner).partition("@")[0] for owner in begun}


def _is_outcome(event: Event) -> bool:
    if event.kind == Kind.STEP_SETTLED:
        return bool(fields_of(event.body)["how"] == "done")
    return event.kind in _OUTCOMES
