"""What the store shows about one start of the command: its runs, their status, and whether they progressed.

Progress is a new outcome: a step's result, a mark, a checkpoint. The start of an attempt or a step, or a
failure, is recorded again at every crash. If they counted, a run that always dies at one place would seem to
progress.
"""

from collections.abc import Sequence
from typing import Final

from holdfast.api.store.store import Store, find_store
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.people.wait_fold import WAITS
from holdfast.errors import StoreError
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple
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


class RunStatus(NamedTuple):
    """A run that the command worked on, and its status. ``until`` is the end of a parked run's wait."""

    run: str
    status: str
    until: float | None = None


class Work(NamedTuple):
    """What one start of the command did. ``problem``: why the store could not be read; empty if it could."""

    runs: tuple[RunStatus, ...] = ()
    got_on: bool = False
    problem: str = ""


class RunProgress:
    """A store, read before and after each start. It may not exist yet: the first run creates it."""

    def __init__(self, url: str | None) -> None:
        """Read the store for the first time.

        Raises what opening raises; a later failure does not end the watch.
        """
        self._url = url
        self._store: Store | None = None
        self._heads = self._look()

    def begin(self) -> None:
        """Note the head of every run, before a start."""
        try:
            self._heads = self._look()
        except StoreError:
            # keep the heads of the start before: too many runs count as worked on, but none is missed
            return

    def work(self, pid: int) -> Work:
        """What was recorded since ``begin`` by the process with this id, or by its children."""
        try:
            found = [(info, self._new_events(info)) for info in self._infos() if self._has_grown(info)]
        except StoreError as error:
            return Work(problem=str(error))
        begun = [(info, events) for info, events in found if _owners(events)]
        # Behind a wrapper (`uv run`, a container) the working process has another id: then take every new
        # attempt.
        ours = [(info, events) for info, events in begun if str(pid) in _owners(events)] or begun
        runs = tuple(RunStatus(info.run, info.status, self._until(info)) for info, _ in ours)
        return Work(runs, any(_is_outcome(event) for _, events in ours for event in events))

    def _until(self, info: RunInfo) -> float | None:
        """When a parked run can continue by itself.

        None if it waits for a person, or if the time is unknown.
        """
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
    """The process ids of the attempts that start in these events."""
    begun = (fields_of(event.body)["owner"] for event in events if event.kind == Kind.ATTEMPT_STARTED)
    return {str(owner).partition("@")[0] for owner in begun}


def _is_outcome(event: Event) -> bool:
    if event.kind == Kind.STEP_SETTLED:
        return bool(fields_of(event.body)["how"] == "done")
    return event.kind in _OUTCOMES
