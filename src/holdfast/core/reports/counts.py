"""The data of statistics: counts of tools, models, attempts and runs, failures, and the tally of a tool.

``statistics`` counts the journals. A field that ends in ``_s`` is in seconds.
"""

from collections.abc import Sequence

from holdfast.model.budget import NOTHING_SPENT, Spent
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import RunInfo


class Source(NamedTuple):
    """A run and its whole journal, with what a fork borrows; ``events`` is None if it cannot be read."""

    info: RunInfo
    events: Sequence[Event] | None


class ToolStats(NamedTuple):
    """All calls of one name. Times are of calls that ended.

    ``own_s`` is without the steps inside; ``share`` is its share of the ``own_s`` of all tools.
    """

    name: str
    started: int
    finished: int
    failed: int
    retried: int
    in_doubt: int
    total_s: float
    own_s: float
    share: float
    longest_s: float
    median_s: float


class ModelStats(NamedTuple):
    """The answered calls of one model at one provider. Either name may be empty, if it was not recorded."""

    model: str
    provider: str
    spent: Spent


class AttemptStats(NamedTuple):
    """One attempt.

    It need not run ``answered`` steps, which were recorded before and had taken ``answered_s``.
    ``answered_spent`` is what the model calls among them had cost.
    """

    number: int
    how: str
    started_at: float
    took_s: float | None
    answered: int
    answered_s: float
    answered_spent: Spent = NOTHING_SPENT


class Failure(NamedTuple):
    """A failure of a step, or of an attempt outside its steps. ``how`` is ``step``, or how the attempt ended.

    ``step`` is the step that failed; empty outside of steps. ``type`` and ``message`` are those of the
    exception; a crash has only a message, and ``at`` is its last sign of life. ``ended``: the failure ended
    the attempt.
    """

    run: str
    seq: int
    at: float
    attempt: int
    how: str
    step: str
    type: str
    message: str
    ended: bool


class RunStats(NamedTuple):
    """One run. ``saved`` counts the steps that later attempts did not run again. Failures are newest first.

    ``models`` answered its calls; ``unanswered`` model calls failed or were cut off (the provider may charge
    for them); ``saved_spent`` is what replayed calls had cost.
    """

    run: str
    status: str
    created_at: float
    attempts: tuple[AttemptStats, ...] = ()
    crashes: int = 0
    started: int = 0
    own_s: float = 0.0
    saved: int = 0
    saved_s: float = 0.0
    failures: tuple[Failure, ...] = ()
    models: tuple[ModelStats, ...] = ()
    unanswered: int = 0
    saved_spent: Spent = NOTHING_SPENT


class Stats(NamedTuple):
    """One run, or all of a store.

    Runs are in the given order, tools with the most calls first, failures newest first. Models are sorted by
    cost, the most expensive first.
    """

    runs: tuple[RunStats, ...]
    tools: tuple[ToolStats, ...]
    failures: tuple[Failure, ...]
    models: tuple[ModelStats, ...] = ()


class Compacted(NamedTuple):
    """The calls of one name in a compacted range of a journal.

    ``ended`` is the number of calls whose time is known.
    """

    started: int = 0
    finished: int = 0
    failed: int = 0
    retried: int = 0
    ended: int = 0
    total_s: float = 0.0
    own_s: float = 0.0
    longest_s: float = 0.0
    median_s: float = 0.0


class Tally:
    """The counts of one tool while journals are walked."""

    def __init__(self) -> None:
        self.started = self.finished = self.failed = self.retried = self.in_doubt = 0
        self.took_s: list[float] = []
        self.own_s = 0.0
        self.compacted: list[Compacted] = []

    def add(self, part: "Compacted") -> None:
        """Count the calls that a compacted event replaced."""
        self.started += part.started
        self.finished += part.finished
        self.failed += part.failed
        self.retried += part.retried
        self.own_s += part.own_s
        self.compacted.append(part)

    def since(self, before: "Tally | None") -> "Compacted":
        """What was counted since an earlier copy."""
        before = before or Tally()
        took_s = self.took_s[len(before.took_s) :]
        parts = self.compacted[len(before.compacted) :]
        return Compacted(
            self.started - before.started,
            self.finished - before.finished,
            self.failed - before.failed,
            self.retried - before.retried,
            len(took_s) + sum(part.ended for part in parts),
            round(sum(took_s, 0.0) + sum((part.total_s for part in parts), 0.0), 6),
            round(self.own_s - before.own_s, 6),
            max([*took_s, *(part.longest_s for part in parts)], default=0.0),
            _middle(took_s, parts),
        )

    def copy(self) -> "Tally":
        """A copy of the counts."""
        made = Tally()
        vars(made).update(vars(self))
        made.took_s, made.compacted = self.took_s.copy(), self.compacted.copy()
        return made

    def stats(self, name: str, whole_s: float) -> ToolStats:
        """The counts of the tool, given the time that all tools took."""
        return ToolStats(
            name=name,
            started=self.started,
            finished=self.finished,
            failed=self.failed,
            retried=self.retried,
            in_doubt=self.in_doubt,
            total_s=round(sum(self.took_s, 0.0) + sum((part.total_s for part in self.compacted), 0.0), 6),
            own_s=round(self.own_s, 6),
            share=round(self.own_s / whole_s, 4) if whole_s else 0.0,
            longest_s=max([*self.took_s, *(part.longest_s for part in self.compacted)], default=0.0),
            median_s=_middle(self.took_s, self.compacted),
        )


def _middle(took_s: Sequence[float], parts: Sequence[Compacted]) -> float:
    """The median.

    The times of compacted calls are not known one by one, so each counts as the median of its range.
    """
    from statistics import median  # imports a dozen modules, which would slow down `import holdfast`

    if not parts:
        return round(median(took_s), 6) if took_s else 0.0
    middles = sorted([(took, 1) for took in took_s] + [(part.median_s, part.ended) for part in parts])
    half = sum(weight for _, weight in middles) / 2
    for took, weight in middles:
        half -= weight
        if half <= 0:
            return round(took, 6)
    return 0.0
