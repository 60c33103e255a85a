"""Statistics of runs for people: what was spent, what replay saved, and the last two failures.

``core.reports.statistics`` counts; this adds sums over all runs and turns failures into one line each.
"""

from collections.abc import Callable
from typing import Final

from holdfast.core.budget.spending import total
from holdfast.core.reports.counts import AttemptStats, Failure, RunStats, Stats, ToolStats
from holdfast.model.budget import Spent
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.cost import ModelCost, bill
from holdfast.views.value_text import failure_line, one_line

LAST_FAILURES: Final = 2
"""The last failure, and the one before."""

ORDERS: Final[dict[str, Callable[[ToolStats], float]]] = {
    "started": lambda tool: tool.started,
    "failed": lambda tool: tool.failed,
    "total": lambda tool: tool.total_s,
    "longest": lambda tool: tool.longest_s,
}
"""The orders of tools, highest first: ran most, failed most, took longest in all, took longest once."""


class FailureLine(NamedTuple):
    """Where a run failed. ``step`` is empty outside of steps; ``ended``: whether it ended the attempt."""

    run: str
    seq: int
    at: float
    attempt: int
    how: str
    step: str
    error: str
    ended: bool


class AttemptNumbers(NamedTuple):
    """One attempt, and what it need not repeat.

    The number of steps, their time, the usage of their model calls.
    """

    number: int
    how: str
    started_at: float
    took_s: float | None
    answered: int
    answered_s: float
    answered_spent: ModelCost


class ModelNumbers(NamedTuple):
    """The answered calls of one model at one provider."""

    model: str
    provider: str
    spent: ModelCost


class RunNumbers(NamedTuple):
    """One run: its attempts, its steps and their time, what replay saved, and the last failures.

    ``spent`` is the usage of its model calls, ``unanswered`` the number of calls without an answer,
    ``saved_spent`` the usage of the calls that replay answered.
    """

    run: str
    status: str
    created_at: float
    crashes: int
    started: int
    own_s: float
    saved: int
    saved_s: float
    attempts: tuple[AttemptNumbers, ...]
    last_failures: tuple[FailureLine, ...]
    spent: ModelCost
    unanswered: int
    saved_spent: ModelCost


class Totals(NamedTuple):
    """All runs together."""

    runs: int
    attempts: int
    crashes: int
    started: int
    own_s: float
    saved: int
    saved_s: float
    spent: ModelCost
    unanswered: int
    saved_spent: ModelCost


class StatsPage(NamedTuple):
    """Everything that ``holdfast stats`` shows.

    Tools in the requested order, runs and failures newest first.
    """

    totals: Totals
    tools: tuple[ToolStats, ...]
    runs: tuple[RunNumbers, ...]
    failures: tuple[FailureLine, ...]
    models: tuple[ModelNumbers, ...]


def arrange(stats: Stats, *, by: str = "started") -> StatsPage:
    """The page of one run, or of all runs; ``by`` is one of ``ORDERS``. The sort is stable."""
    runs = stats.runs
    totals = Totals(
        runs=len(runs),
        attempts=sum(len(run.attempts) for run in runs),
        crashes=sum(run.crashes for run in runs),
        started=sum(run.started for run in runs),
        own_s=round(sum((run.own_s for run in runs), 0.0), 6),
        saved=sum(run.saved for run in runs),
        saved_s=round(sum((run.saved_s for run in runs), 0.0), 6),
        spent=bill(total(map(_spent, runs))),
        unanswered=sum(run.unanswered for run in runs),
        saved_spent=bill(total(run.saved_spent for run in runs)),
    )
    return StatsPage(
        totals,
        tuple(sorted(stats.tools, key=ORDERS[by], reverse=True)),
        tuple(map(_numbers, runs)),
        tuple(map(_failure, stats.failures)),
        tuple(ModelNumbers(model, provider, bill(spent)) for model, provider, spent in stats.models),
    )


def _spent(run: RunStats) -> Spent:
    return total(model.spent for model in run.models)


def _numbers(run: RunStats) -> RunNumbers:
    return RunNumbers(
        run=run.run,
        status=run.status,
        created_at=run.created_at,
        crashes=run.crashes,
        started=run.started,
        own_s=run.own_s,
        saved=run.saved,
        saved_s=run.saved_s,
        attempts=tuple(map(_attempt, run.attempts)),
        last_failures=tuple(map(_failure, run.failures[:LAST_FAILURES])),
        spent=bill(_spent(run)),
        unanswered=run.unanswered,
        saved_spent=bill(run.saved_spent),
    )


def _attempt(attempt: AttemptStats) -> AttemptNumbers:
    number, how, started_at, took_s, answered, answered_s, spent = attempt
    return AttemptNumbers(number, how, started_at, took_s, answered, answered_s, bill(spent))


def _failure(failure: Failure) -> FailureLine:
    if failure.how == "crashed":
        error = one_line(f"crashed {failure.message}")
    else:
        error = failure_line({"type": failure.type, "message": failure.message})
    return FailureLine(
        failure.run,
        failure.seq,
        failure.at,
        failure.attempt,
        failure.how,
        failure.step,
        error,
        failure.ended,
    )
