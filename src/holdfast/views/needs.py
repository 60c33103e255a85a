"""What needs a person, in all runs, the most urgent first.

Questions, effects in doubt, stopped calls, premises, budgets, and runs that cannot go on by themselves.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import OpenQuestion, StoppedCall
from holdfast.views.in_doubt import DoubtLine, StoppedLine, stopped_line
from holdfast.views.questions import QuestionLine, question_line
from holdfast.views.runs import RunLine

NeedKind = Literal["doubt", "stopped", "question", "premise", "budget", "diverged", "failed", "damaged"]

_ORDER: Final[dict[str, int]] = {
    "doubt": 0,
    "stopped": 1,
    "question": 2,
    "damaged": 3,
    "premise": 4,
    "budget": 5,
    "diverged": 6,
    "failed": 7,
}
_CAUSES: Final = (("PremiseMissing", "premise"), ("BudgetExceeded", "budget"), ("Diverged", "diverged"))


class NeedLine(NamedTuple):
    """One thing that waits for a person. One of the last three says what it is about, or ``text`` does."""

    kind: NeedKind
    run: str
    since_at: float
    text: str
    doubt: DoubtLine | None = None
    stopped: StoppedLine | None = None
    question: QuestionLine | None = None


class RunNeeds(NamedTuple):
    """What one run needs, as the store tells it."""

    line: RunLine
    doubts: Sequence[DoubtLine] = ()
    stopped: Sequence[StoppedCall] = ()
    questions: Sequence[OpenQuestion] = ()
    error: str = ""
    """How its last attempt ended, in one line."""


def need_lines(runs: Iterable[RunNeeds]) -> list[NeedLine]:
    """Everything that waits for a person, the most urgent first, then the oldest."""
    found = [need for run in runs for need in _of(run)]
    return sorted(found, key=lambda need: (_ORDER[need.kind], need.since_at, need.run))


def needs_person(line: RunLine) -> bool:
    """Whether a run may need a person, from its line alone: then its journal is worth a look."""
    return bool(
        line.in_doubt
        or line.open_questions
        or line.damage
        or line.status in {"in_doubt", "diverged", "failed", "parked"}
    )


def _of(run: RunNeeds) -> Iterable[NeedLine]:
    line = run.line
    if line.damage:
        yield NeedLine("damaged", line.run, line.last_sign_at, f"cannot be read: {line.damage}")
        return
    for doubt in run.doubts:
        if doubt.pending is None:
            yield NeedLine("doubt", line.run, doubt.started_at, "", doubt=doubt)
    for stopped in map(stopped_line, run.stopped):
        if stopped.pending is None:
            yield NeedLine("stopped", line.run, line.last_sign_at, "", stopped=stopped)
    for asked in run.questions:
        if not asked.pending_by and not asked.is_expired:
            yield NeedLine("question", line.run, asked.asked_at, "", question=question_line(asked))
    kind = _cause(line, run.error)
    if kind is not None and not run.doubts and not run.stopped:
        yield NeedLine(kind, line.run, line.last_sign_at, run.error or f"the run {line.status}")


def _cause(line: RunLine, error: str) -> NeedKind | None:
    for name, kind in _CAUSES:
        if name in error and line.status not in {"running", "finished", "cancelled"}:
            return kind  # type: ignore[return-value]  # one of the words above
    return "failed" if line.status == "failed" else "diverged" if line.status == "diverged" else None
