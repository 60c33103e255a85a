"""What needs a person, in all runs, the most urgent first.

Questions, effects in doubt, stopped calls, premises, budgets, poisoned runs, and others that cannot go on by
themselves.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, get_args

from holdfast.core.hooks.notices import STOPS
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import OpenQuestion, StoppedCall
from holdfast.views.in_doubt import DoubtLine, StoppedLine, stopped_line
from holdfast.views.questions import QuestionLine, question_line
from holdfast.views.runs import RunLine

NeedKind = Literal[
    "doubt",
    "stopped",
    "question",
    "damaged",
    "premise",
    "budget",
    "poisoned",
    "looping",
    "diverged",
    "failed",
]

_ORDER: Final[dict[str, int]] = {kind: place for place, kind in enumerate(get_args(NeedKind))}
_CASES: Final[dict[str, NeedKind]] = {
    "out-of-budget": "budget",
    "premise-missing": "premise",
    "poisoned": "poisoned",
    "looping": "looping",
}
"""What is needed in each case in which hooks report a parked run."""
_GOES_ON: Final = frozenset({"running", "finished", "cancelled", "queued", "sealed"})
_CALM: Final = frozenset({"finished", "cancelled", "queued", "sealed", "not_begun", "set_aside", "importing"})


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
    error_type: str = ""


def need_lines(runs: Iterable[RunNeeds]) -> list[NeedLine]:
    """Everything that waits for a person, the most urgent first, then the oldest."""
    found = [need for run in runs for need in _of(run)]
    return sorted(found, key=lambda need: (_ORDER[need.kind], need.since_at, need.run))


def is_calm(status: str) -> bool:
    """Whether a run of this status needs no person, as long as its journal is sound."""
    return status in _CALM


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
    kind = _cause(line, run.error_type)
    if kind is not None and not run.doubts and not run.stopped:
        yield NeedLine(kind, line.run, line.last_sign_at, run.error or f"the run {line.status}")


def _cause(line: RunLine, error_type: str) -> NeedKind | None:
    if error_type in STOPS and line.status not in _GOES_ON:
        return _CASES[STOPS[error_type][1]]
    return "failed" if line.status == "failed" else "diverged" if line.status == "diverged" else None
