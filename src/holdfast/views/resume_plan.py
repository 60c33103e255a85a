"""The resume plan for people: the most important first, and the command that would start.

``core.resume.resume_plan`` makes the decisions.
"""

from typing import Any, Final

from holdfast.core.premises.source_change import diffs_of
from holdfast.core.resume.resume_plan import Answers, Asked, Repeat, ResumePlan, Saved, Uncertain
from holdfast.core.text.times import moment
from holdfast.core.text.value_text import count, money
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.premises import Judged
from holdfast.model.recorded_command import Command
from holdfast.model.waits import Waiting
from holdfast.views.in_doubt import StoppedLine, UnclaimedLine, stopped_line, unclaimed_line
from holdfast.views.value_text import span

__all__ = [
    "Launch",
    "PremiseLine",
    "Repeat",
    "ResumeLines",
    "SourceDiff",
    "answers_line",
    "arrange",
    "premises_line",
    "saved_line",
    "trust_line",
]


class Launch(NamedTuple):
    """A command to start: interpreter, arguments, directory, and additions to the environment."""

    argv: tuple[str, ...]
    cwd: str
    environ: dict[str, str]
    hidden: dict[str, Any] = {}  # noqa: RUF012 - the defaults of a NamedTuple are not changed
    """The words of ``argv`` that have secrets, by their place: text and names in turn."""


class SourceDiff(NamedTuple):
    """The difference in one definition, as lines of a diff."""

    name: str
    lines: tuple[str, ...]


class PremiseLine(NamedTuple):
    """A premise of the run: the verdict, its consequence, and why. ``recorded_seq`` is its event, or 0."""

    premise: str
    verdict: str
    act: str
    text: str
    recorded_seq: int
    diffs: tuple[SourceDiff, ...] = ()
    """Of changed source, the definitions whose old text is recorded."""


class ResumeLines(NamedTuple):
    """What ``holdfast resume RUN --dry-run`` shows."""

    run: str
    status: str
    attempt: int
    answers: Answers
    saved: Saved
    doubts: tuple[Uncertain, ...]
    premises: tuple[PremiseLine, ...]
    questions: tuple[Asked, ...]
    waits: tuple[Waiting, ...]
    again: tuple[Repeat, ...]
    next_item: str
    launch: Launch
    command: Command | None = None
    came_from: str = ""
    stopped: tuple[StoppedLine, ...] = ()
    unclaimed: tuple[UnclaimedLine, ...] = ()
    secrets: tuple[str, ...] = ()


_ORDER: Final = {"missing": 0, "changed": 1, "unknown": 2, "holds": 3}
_ACTS: Final = {"pause": 0, "warn": 1, "ignore": 2}


def arrange(plan: ResumePlan, launch: Launch) -> ResumeLines:
    """The plan with its premises ordered by their consequence."""
    lines = sorted(
        (_premise(judged) for judged in plan.premises),
        key=lambda line: (_ACTS[line.act], _ORDER[line.verdict], line.premise),
    )
    fields = {
        **plan._asdict(),
        "premises": tuple(lines),
        "launch": launch,
        "stopped": tuple(map(stopped_line, plan.stopped)),
        "unclaimed": tuple(map(unclaimed_line, plan.unclaimed)),
    }
    return ResumeLines(**fields)


def _premise(judged: Judged) -> PremiseLine:
    premise = judged.premise
    is_source = premise.kind == "source" and judged.verdict == "changed"
    found = diffs_of(premise.facts or {}, judged.found or {}) if is_source else {}
    diffs = tuple(SourceDiff(name, lines) for name, lines in found.items())
    return PremiseLine(premise.id, judged.verdict, judged.act, judged.text, premise.seq, diffs)


def trust_line(command: Command | None, came_from: str = "") -> str:
    """The owner of the command, if it is foreign, and whether it is trusted.

    Empty if there is nothing to say.

    ``came_from`` is the origin of the run that was already shown.
    """
    if command is None or not command.origin or command.starter != "program":
        return ""
    whose = "not yours" if command.origin == came_from else f"not yours ({command.origin})"
    if command.trusted_at is not None:
        return f"{whose}, and trusted by {command.trusted_by} on {moment(command.trusted_at)}"
    return f"{whose}, and not trusted"


def answers_line(answers: Answers) -> str:
    """``5 steps, 4 marks and 1 checkpoint``."""
    told = [count(answers.steps, "step"), count(answers.marks, "mark")]
    if answers.checkpoints:
        told.append(count(answers.checkpoints, "checkpoint"))
    return f"{', '.join(told[:-1])} and {told[-1]}"


def saved_line(saved: Saved) -> str:
    """What need not be spent again; empty for nothing. Uncounted usage is shown as unknown."""
    told = [span(saved.seconds)] if saved.seconds else []
    if saved.model_calls:
        tokens = "tokens unknown" if saved.tokens is None else count(saved.tokens, "token")
        cost = "cost unknown" if saved.cost is None else money(saved.cost)
        told.append(tokens + _known(saved.tokens_unknown, saved.model_calls))
        told.append(cost + _known(saved.cost_unknown, saved.model_calls))
    return ", ".join(told)


def _known(unknown: int, calls: int) -> str:
    return f" (of {calls - unknown} of {calls} model calls)" if 0 < unknown < calls else ""


def premises_line(premises: tuple[PremiseLine, ...]) -> str:
    """``12 hold, 1 does not, 3 are unknown``; empty without premises."""
    hold = sum(line.verdict == "holds" for line in premises)
    unknown = sum(line.verdict == "unknown" for line in premises)
    broken = len(premises) - hold - unknown
    told = [f"{hold} hold" if hold != 1 else "1 holds"] if hold else []
    if broken:
        told.append(f"{broken} do not hold" if broken > 1 else "1 does not hold")
    if unknown:
        told.append(f"{unknown} not known yet")
    return ", ".join(told)
