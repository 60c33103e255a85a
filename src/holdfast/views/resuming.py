"""What starting a run again would do: what its journal answers, what runs again, what is in doubt and what becomes of it.

It tells from the journal and the inbox alone. A tool's ``verify`` and ``in_doubt`` stand in the program and not in the
journal, so for a step that nobody has decided about the plan can only say who will be asked.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from holdfast.core.fold import View, fold
from holdfast.model.events import Event, Kind
from holdfast.model.infos import Doubt, RunInfo
from holdfast.views.steps import StepLine, list_steps

_FATES: Final = {
    "done": "counts as done: the program gets the value that was given",
    "retry": "runs again, under the same idempotency key",
    "failed": "counts as failed: the program gets a RuntimeError",
    "abandon": "is set aside: the program goes on without it",
}
_UNDECIDED: Final = "its verify decides; without one the run stops and asks"


class Launch(NamedTuple):
    """A command to start: the interpreter and its arguments, where, and what is added to the environment."""

    argv: tuple[str, ...]
    cwd: str
    environ: dict[str, str]


class Answers(NamedTuple):
    """How much of the program is answered from the journal."""

    steps: int
    marks: int
    checkpoints: int
    latest_point: int | None
    latest_label: str


class Uncertain(NamedTuple):
    """A step in doubt. ``pending`` is what a person already said; ``fate`` what starting again makes of it, in words."""

    step: str
    key: str
    started_at: float
    reason: str
    pending: str | None
    fate: str


class Repeat(NamedTuple):
    """A step that was begun and runs again, because it was cut off or because its failure ended the attempt."""

    step: str
    key: str
    effect: str
    tries: int
    why: Literal["cut_off", "failed"]
    detail: str


class ResumePlan(NamedTuple):
    """What ``holdfast resume RUN --dry-run`` shows."""

    run: str
    status: str
    attempt: int
    answers: Answers
    doubts: tuple[Uncertain, ...]
    again: tuple[Repeat, ...]
    launch: Launch


def plan_resume(
    info: RunInfo, events: Sequence[Event], doubts: Sequence[Doubt], launch: Launch
) -> ResumePlan:
    """The plan for starting a run that nobody alive holds."""
    view = fold(events)
    attempt = view.next_attempt
    if view.crashed_attempt is not None:
        # As the next attempt will record it: what failed last, with nothing after it, is tried again.
        view.end_attempt("crashed", info.lease.beat_at)
    steps = list_steps(events, in_doubt={doubt.key for doubt in doubts})
    return ResumePlan(
        run=info.run,
        status=info.status,
        attempt=attempt,
        answers=_answers(view, steps, events),
        doubts=tuple(_uncertain(doubt) for doubt in doubts),
        again=tuple(_repeats(view, steps)),
        launch=launch,
    )


def _answers(view: View, steps: Sequence[StepLine], events: Sequence[Event]) -> Answers:
    checkpoints = [line for line in steps if line.what == "checkpoint"]
    return Answers(
        steps=sum(line.what == "step" and _is_answered(view, line) for line in steps),
        marks=sum(event.kind == Kind.MARK for event in events),
        checkpoints=len(checkpoints),
        latest_point=checkpoints[-1].point if checkpoints else None,
        latest_label=checkpoints[-1].name if checkpoints else "",
    )


def _is_answered(view: View, line: StepLine) -> bool:
    """Whether this outcome is still given to the program: a failure that ended an attempt is not."""
    call = view.calls[line.key]
    return not call.abandoned and any(outcome.seq == line.outcome_seq for outcome in call.outcomes)


def _uncertain(doubt: Doubt) -> Uncertain:
    fate = _FATES[doubt.pending] if doubt.pending else _UNDECIDED
    return Uncertain(doubt.step, doubt.key, doubt.started_at, doubt.reason, doubt.pending, fate)


def _repeats(view: View, steps: Sequence[StepLine]) -> list[Repeat]:
    """What runs again, each call once: of one that failed in several attempts, the last try is what is told."""
    found: dict[str, Repeat] = {}
    for line in steps:
        if line.what != "step" or view.calls[line.key].abandoned:
            continue
        if line.outcome == "cut_off":
            found[line.key] = Repeat(line.name, line.key, line.effect, line.tries, "cut_off", line.arguments)
        elif line.outcome == "failed" and not view.calls[line.key].outcomes:
            found[line.key] = Repeat(line.name, line.key, line.effect, line.tries, "failed", line.detail)
        else:
            found.pop(line.key, None)
    return list(found.values())
