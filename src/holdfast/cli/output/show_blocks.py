"""The output of ``holdfast show``: a run, a step, an event."""

import shlex
from collections.abc import Sequence
from typing import Any

from orjson import OPT_INDENT_2, dumps

from holdfast.cli.output.blocks import (
    Block,
    Column,
    Commands,
    Facts,
    Gap,
    Heading,
    Lines,
    Mood,
    Span,
    Table,
    Verbatim,
)
from holdfast.cli.output.status_colours import mood_of, status_span
from holdfast.cli.output.steps_table import steps_blocks
from holdfast.model.handoff import Loss
from holdfast.views.acts import ActLine
from holdfast.views.cost import spent_words
from holdfast.views.event_detail import EventDetail, StepDetail
from holdfast.views.handoff import PromiseLine
from holdfast.views.in_doubt import DoubtLine, StoppedLine
from holdfast.views.next_commands import CommandBuilder
from holdfast.views.plan_progress import PlanItem
from holdfast.views.questions import QuestionLine, answer_words
from holdfast.views.resume_plan import trust_line
from holdfast.views.run_summary import AttemptLine, ChildLine, FileLine, RunSummary
from holdfast.views.value_text import (
    ago,
    clock_time,
    count,
    moment,
    readable,
    size,
    span,
    status_word,
)

# -- a run ---------------------------------------------------------------------------------------------------


def run_blocks(
    summary: RunSummary, builder: CommandBuilder, *, steps_max: int, every_step: bool
) -> list[Block]:
    """A run in full: head, attempts, plan, steps, doubts, result, and what to do next.

    ``steps_max`` counts rows of the table of steps, unless every step has its own.
    """
    return [
        *_head(summary),
        *_attempts(summary.attempts, summary.line.created_at),
        *_plan(summary.plan),
        *steps_blocks(summary, builder, rows_max=steps_max, everything=every_step),
        *_children(summary.children, builder),
        *([Gap(), Heading("In doubt"), *doubt_blocks(summary.doubts)] if summary.doubts else []),
        *([Gap(), Heading("Stopped"), *stopped_blocks(summary.stopped)] if summary.stopped else []),
        *([Gap(), Heading("Asks"), *question_blocks(summary.questions)] if summary.questions else []),
        *_files(summary.files, builder, summary.line.run),
        *_promises(summary.promises),
        *_acts(summary.acts),
        *loss_blocks(summary.losses),
        *_result(summary),
        *_next(summary),
    ]


_CHILDREN_SHOWN = 20


def _children(children: Sequence[ChildLine], builder: CommandBuilder) -> list[Block]:
    """The descendants: their status, how many steps ended, and the last of these."""
    if not children:
        return []
    rows = [
        (
            Span(child.name),
            status_span(child.status),
            Span(count(child.steps, "step"), "dim"),
            Span(f"last {child.last_step}" if child.last_step else "", "dim"),
            Span(f"{child.in_doubt} in doubt" if child.in_doubt else "", "doubt"),
        )
        for child in children[:_CHILDREN_SHOWN]
    ]
    columns = (Column(), Column(), Column(right=True), Column(), Column(grows=True))
    blocks: list[Block] = [Gap(), Heading("Children"), Table(columns, rows)]
    if len(children) > _CHILDREN_SHOWN:
        more = count(len(children) - _CHILDREN_SHOWN, "other child", "other children")
        blocks.append(Commands([(builder.holdfast("runs"), more)]))
    return blocks


def _head(summary: RunSummary) -> list[Block]:
    line = summary.line
    status = status_span(line.status)
    pairs: list[tuple[str, list[Span]]] = [
        ("run", [Span(line.run, "strong")]),
        ("status", [Span(f"{status.text}", status.mood), Span(_status_note(summary), "dim")]),
    ]
    if line.goal:
        pairs.append(("goal", [Span(line.goal)]))
    if summary.taken_from is not None:
        pairs.append(("handed over", [Span("by "), Span(summary.taken_from.words)]))
    if summary.came_from:
        pairs.append(("from elsewhere", [Span(summary.came_from)]))
    if whose := trust_line(summary.command, summary.came_from):
        assert summary.command is not None
        recorded = f"{shlex.join(summary.command.line)} in {summary.command.cwd}"
        pairs.append(("command", [Span(recorded), Span(f": {whose}", "doubt")]))
    if summary.inputs is not None:
        pairs.append(("inputs", [Span(readable(summary.inputs))]))
    pairs += [
        ("waits", [Span(wait.what, "doubt"), Span(f", since {moment(wait.since_at)}", "dim")])
        for wait in summary.waits
    ]
    if summary.circle:
        pairs.append(("loop", [Span(summary.circle, "doubt")]))
    if spent := spent_words(summary.spent, summary.budget):
        pairs.append(("spent", [Span(spent)]))
    if summary.cancellation:
        pairs.append(("cancelled", [Span(summary.cancellation)]))
    pairs.append(("begun", [Span(f"{moment(line.created_at)}, {ago(line.age_s)}")]))
    if line.holder:
        dead = "dead, " if line.liveness == "dead" else ""
        pairs.append(("holder", [Span(f"{line.holder}, {dead}last sign of life {ago(line.quiet_s)}")]))
    return [Facts(pairs)]


_FILES_SHOWN = 8
_FILE_WORDS = {
    "an orphan": "an orphan: written by an attempt that was killed before it could record it",
    "under way": "started, and not recorded",
}


def _files(files: tuple[FileLine, ...], builder: CommandBuilder, run: str) -> list[Block]:
    """The files it made; those with a remark first."""
    if not files:
        return []
    first = sorted(files, key=lambda line: line.state == "recorded")
    rows = [
        (
            Span(line.path, "plain" if line.state == "recorded" else "doubt"),
            Span(f"version {line.version}" if line.version else "", "dim"),
            Span(size(line.size_bytes) if line.version else "", "dim"),
            Span(_FILE_WORDS.get(line.state, ""), "doubt"),
        )
        for line in first[:_FILES_SHOWN]
    ]
    columns = (Column(), Column(), Column(right=True), Column(grows=True, wraps=True))
    blocks: list[Block] = [Gap(), Heading("Files"), Table(columns, rows)]
    if len(files) > _FILES_SHOWN:
        more = count(len(files) - _FILES_SHOWN, "other file")
        blocks.append(Commands([(builder.holdfast("artifacts", run), more)]))
    return blocks


def _status_note(summary: RunSummary) -> str:
    line = summary.line
    parts = [f"at point {line.point:,}", f"attempt {line.attempts}"]
    if line.open_questions:
        parts.insert(0, f"asks {count(line.open_questions, 'question')}")
    if line.in_doubt and line.status != "in_doubt":
        parts.insert(0, f"{count(line.in_doubt, 'step')} in doubt")
    return ", " + ", ".join(parts)


def _attempts(attempts: tuple[AttemptLine, ...], begun: float) -> list[Block]:
    if not attempts:
        return []
    columns = (
        Column(right=True),
        Column(),
        Column(drops=1),
        Column(right=True, drops=2),
        Column(drops=3),
        Column(grows=True, wraps=True),
    )
    rows = [
        (
            Span(str(attempt.number)),
            status_span(attempt.how),
            Span(_when(attempt.started_at, begun), "dim"),
            Span(span(attempt.took_s) if attempt.took_s is not None else "", "dim"),
            Span(attempt.holder, "dim"),
            Span(attempt.last),
        )
        for attempt in attempts
    ]
    return [Gap(), Heading("Attempts"), Table(columns, rows, [mood_of(a.how) for a in attempts])]


def _when(at: float, begun: float) -> str:
    """The time, with its day if that is not the run's first day."""
    return clock_time(at) if moment(at)[:10] == moment(begun)[:10] else moment(at).removesuffix(" UTC")


def _plan(plan: tuple[PlanItem, ...]) -> list[Block]:
    if not plan:
        return []
    rows = [
        (Span(item.text), Span(_plan_note(item), "dim" if item.status == "done" else mood_of(item.status)))
        for item in plan
    ]
    table = Table((Column(grows=True), Column()), rows, [mood_of(item.status) for item in plan])
    return [Gap(), Heading("Plan"), table]


def _plan_note(item: PlanItem) -> str:
    words = "unknown" if item.status == "unknown" else status_word(item.status)
    return f"{words}, {count(item.steps, 'step')}" if item.steps > 1 else words


def doubt_blocks(doubts: Sequence[DoubtLine]) -> list[Block]:
    """Steps in doubt, each with what helps to look them up outside."""
    blocks: list[Block] = []
    for number, doubt in enumerate(doubts):
        if number:
            blocks.append(Gap())
        pairs: list[tuple[str, list[Span]]] = [
            (
                "step",
                [Span(doubt.step, "doubt"), Span(f", started {moment(doubt.started_at)}, {doubt.reason}")],
            ),
            ("id", [Span(doubt.id, "strong"), Span(f", key {doubt.key}", "dim")]),
        ]
        if doubt.arguments:
            pairs.append(("arguments", [Span(doubt.arguments)]))
        if doubt.idempotency_key:
            pairs.append(("idempotency key", [Span(doubt.idempotency_key)]))
        if doubt.owner:
            pairs.append(("called as", [Span(doubt.owner)]))
        if doubt.pending:
            pairs.append(("resolved", [Span(f"{doubt.pending}; applied when the run continues", "good")]))
        blocks.append(Facts(pairs, indent=2))
    return blocks


def stopped_blocks(stopped: Sequence[StoppedLine]) -> list[Block]:
    """Calls that were not made, each beside the recorded effects that it may be."""
    blocks: list[Block] = []
    for number, line in enumerate(stopped):
        if number:
            blocks.append(Gap())
        pairs: list[tuple[str, list[Span]]] = [("now", [Span(line.call, "doubt")])]
        pairs += [
            (name, [Span(call), Span(f", {state}; not asked for", "dim")])
            for name, call, state in line.effects
        ]
        if line.pending:
            pairs.append(("decided", [Span(f"{line.pending}; applied when the run continues", "good")]))
        blocks.append(Facts(pairs, indent=2))
    return blocks


def question_blocks(questions: Sequence[QuestionLine]) -> list[Block]:
    """Questions, each with its subject and its possible answers."""
    blocks: list[Block] = []
    for number, line in enumerate(questions):
        if number:
            blocks.append(Gap())
        pairs: list[tuple[str, list[Span]]] = [
            (line.id, [Span(line.question, "doubt")]),
            ("asked", [Span(moment(line.asked_at))]),
            ("answers", [Span(line.answers)]),
        ]
        if line.about is not None:
            pairs.insert(1, ("about", [Span(readable(line.about))]))
        if line.expires_at is not None:
            pairs.append(("expired" if line.is_expired else "expires", [Span(moment(line.expires_at))]))
        if line.answered_by:
            pairs.append(("answered", [Span(answer_words(line), "good")]))
        blocks.append(Facts(pairs, indent=2))
    return blocks


def _promises(promises: Sequence[PromiseLine]) -> list[Block]:
    if not promises:
        return []
    columns = (Column(), Column(), Column(grows=True, wraps=True), Column(drops=1))
    rows = [
        (Span(p.state, mood_of(p.state)), Span(_whose(p), "dim"), Span(_said(p)), Span(p.id, "dim"))
        for p in promises
    ]
    return [Gap(), Heading("Promises"), Table(columns, rows, [mood_of(p.state) for p in promises])]


_ACTS_SHOWN = 8


def _acts(acts: Sequence[ActLine]) -> list[Block]:
    """What people did with the run, the latest last."""
    if not acts:
        return []
    rows = [
        (Span(moment(act.at), "dim"), Span(act.by), Span(act.what), Span(_about(act), "dim"))
        for act in acts[-_ACTS_SHOWN:]
    ]
    columns = (Column(drops=1), Column(), Column(), Column(grows=True, wraps=True))
    more = len(acts) - len(rows)
    title = Heading("People", f"{count(more, 'earlier act')} not shown" if more else "")
    return [Gap(), title, Table(columns, rows)]


def _about(act: ActLine) -> str:
    return f"{act.detail} (#{act.seq})" if act.seq and act.detail else act.detail


def _whose(promise: PromiseLine) -> str:
    if promise.side == "received":
        return f"given by {promise.by}"
    return f"to {promise.to}" if promise.to else "made"


def _said(promise: PromiseLine) -> str:
    due = f", due {moment(promise.due_at)}" if promise.due_at is not None and promise.state == "open" else ""
    return f"{promise.text}{due}{f': {promise.note}' if promise.note else ''}"


def loss_blocks(losses: Sequence[Loss]) -> list[Block]:
    """What a handoff could not carry over, each with its advice."""
    if not losses:
        return []
    columns = (Column(), Column(), Column(grows=True, wraps=True))
    rows = [
        (Span(one.what, "dim"), Span(one.name, "doubt"), Span(f"{one.why}; {one.advice}")) for one in losses
    ]
    moods: list[Mood] = ["doubt" for _ in losses]
    table = Table(columns, rows, moods)
    return [Gap(), Heading("Not carried over"), table]


def _result(summary: RunSummary) -> list[Block]:
    if summary.line.status != "finished":
        return []
    return [Gap(), Facts([("result", [Span(readable(summary.result), "good")])])]


def _next(summary: RunSummary) -> list[Block]:
    why, choices = summary.next
    if not why:
        return []
    blocks: list[Block] = [Gap(), Heading("Next"), Lines([[Span(why)]], indent=2)]
    return [*blocks, Commands(choices)] if choices else blocks


# -- a step, an event ----------------------------------------------------------------------------------------


def step_blocks(detail: StepDetail) -> list[Block]:
    """A step or checkpoint with its full content."""
    step = detail.step
    facts: list[tuple[str, list[Span]]] = [
        ("run", [Span(detail.run, "strong")]),
        ("point", [Span(str(step.point))]),
        (step.what, [Span(step.name or "(no label)", "strong")]),
    ]
    if step.what == "step":
        facts += [
            ("effect", [Span(step.effect)]),
            ("outcome", [status_span(step.outcome), Span(f" {step.settled}".rstrip(), "dim")]),
            ("began", [Span(f"{moment(step.started_at)}, attempt {step.attempt}")]),
        ]
    else:
        facts.append(("recorded", [Span(f"{moment(step.started_at)}, attempt {step.attempt}")]))
    if step.took_s is not None:
        facts.append(("took", [Span(span(step.took_s))]))
    if step.tries > 1:
        facts.append(("tries", [Span(str(step.tries))]))
    facts.append(("key", [Span(step.key)]))
    if detail.idempotency_key:
        facts.append(("idempotency key", [Span(detail.idempotency_key)]))
    if detail.owner:
        facts.append(("called as", [Span(detail.owner), Span(": set when the run was imported", "dim")]))
    facts.append(("events", [Span(" ".join(f"#{line.seq}" for line in detail.events))]))
    blocks: list[Block] = [Facts(facts)]
    if detail.arguments:
        blocks += _content("Arguments", detail.arguments)
    if detail.error is not None:
        return [*blocks, *_failure(detail.error)]
    if detail.lost:
        return [*blocks, Gap(), Heading("Result"), Verbatim([detail.lost])]
    return [*blocks, *_content("State" if step.what == "checkpoint" else "Result", detail.value)]


def event_blocks(detail: EventDetail) -> list[Block]:
    """A recorded event."""
    facts: list[tuple[str, list[Span]]] = [
        ("run", [Span(detail.run, "strong")]),
        ("event", [Span(f"#{detail.seq}"), Span(f"  {detail.what}", "strong")]),
        ("at", [Span(moment(detail.at))]),
        ("kind", [Span(detail.kind)]),
    ]
    facts += [
        (label, [Span(value)]) for label, value in (("name", detail.name), ("key", detail.key)) if value
    ]
    facts.append(("fence", [Span(str(detail.fence))]))
    return [Facts(facts), *_content("Body", detail.body)]


def _content(title: str, tree: Any) -> list[Block]:
    lines = (
        tree.split("\n") if isinstance(tree, str) else dumps(tree, option=OPT_INDENT_2).decode().split("\n")
    )
    return [Gap(), Heading(title), Verbatim(lines)]


def _failure(error: dict[str, Any]) -> list[Block]:
    mood: Mood = "bad"
    blocks: list[Block] = [
        Gap(),
        Heading("Failure"),
        Lines([[Span(f"{error.get('type', '')}: ", mood), Span(str(error.get("message", "")))]], indent=2),
    ]
    trace = str(error.get("traceback", "")).rstrip("\n")
    return [*blocks, Verbatim(trace.split("\n"))] if trace else blocks
