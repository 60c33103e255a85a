"""A run in full, for ``show``: what it is for, where it stands, how it came there, and what to do next."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.journal.fold import View, fold
from holdfast.core.people.promises import PROMISES
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.reports.progress import Overview, work_on_plan
from holdfast.errors import BudgetExceeded
from holdfast.model.event_fields import contents_of, fields_of, part_of
from holdfast.model.events import Event, Kind
from holdfast.model.handoff import Loss, Promises
from holdfast.model.recorded_command import Command
from holdfast.model.run_info import Doubt, OpenQuestion, RunInfo
from holdfast.model.store_rows import OVER, Status, owner_name
from holdfast.views.cost import Bill, bill
from holdfast.views.event_text import circle_line, tell
from holdfast.views.handoff import PromiseLine, Taken, losses_of, promise_lines, taken_from
from holdfast.views.in_doubt import DoubtLine, doubt_line
from holdfast.views.next_commands import Desk, Move, next_move
from holdfast.views.plan_progress import PlanItem, plan_items
from holdfast.views.questions import QuestionLine, question_line, wait_words
from holdfast.views.runs import RunLine, run_line
from holdfast.views.steps import StepLine, list_steps
from holdfast.views.value_text import failure_line, moment, one_line


class AttemptLine(NamedTuple):
    """One attempt: who, when, how it ended, and the last thing known. ``how`` is ``running`` while nobody saw it end."""

    number: int
    how: str
    started_at: float
    took_s: float | None
    holder: str
    last: str


class WaitLine(NamedTuple):
    """One thing that the run waits for, apart from answers; ``until`` is when that is over, if it is known."""

    what: str
    since_at: float
    until_at: float | None


class FileLine(NamedTuple):
    """A file of the run's. ``state``: recorded, an orphan, or under way: begun by an attempt and not recorded."""

    path: str
    version: int
    size_bytes: int
    state: str


class RunSummary(NamedTuple):
    """Everything that ``holdfast show RUN`` tells. ``circle`` is what the agent repeats, and empty unless it was nudged or paused.

    ``spent`` is what its model calls took, ``budget`` what the last attempt was allowed,
    ``cancellation`` says by whom it was cancelled. ``taken_from`` is the run that has handed its work over to this one, and
    ``losses`` what did not come along. ``came_from`` says where its history was brought in from, and ``command`` is what it was
    last started with, if that is foreign.
    """

    line: RunLine
    agent: str
    inputs: Any
    attempts: tuple[AttemptLine, ...]
    plan: tuple[PlanItem, ...]
    steps: tuple[StepLine, ...]
    doubts: tuple[DoubtLine, ...]
    questions: tuple[QuestionLine, ...]
    waits: tuple[WaitLine, ...]
    files: tuple[FileLine, ...]
    result: Any
    circle: str
    spent: Bill
    budget: dict[str, Any] | None
    cancellation: str
    taken_from: Taken | None
    losses: tuple[Loss, ...]
    promises: tuple[PromiseLine, ...]
    next: Move
    came_from: str = ""
    command: Command | None = None


def summarize(
    info: RunInfo,
    events: Sequence[Event],
    doubts: Sequence[Doubt],
    questions: Sequence[OpenQuestion] = (),
    *,
    now: float,
    size_bytes: int | None,
    desk: Desk,
    promises: Promises | None = None,
    read: Callable[[Event], dict[str, Any]],
) -> RunSummary:
    """The summary of a run from its events and what was found by looking at its holder; ``read`` gives a whole body."""
    view = fold(events)
    started = read(view.started) if view.started else {}
    finished = next((event for event in reversed(events) if event.kind == Kind.RUN_FINISHED), None)
    steps = list_steps(events, in_doubt={doubt.key for doubt in doubts}, is_held=info.holder == "alive")
    return RunSummary(
        line=run_line(Overview(info, view, len(doubts), size_bytes), now=now),
        agent=started.get("agent") or "",
        inputs=started.get("inputs"),
        attempts=_attempts(info, view, events),
        plan=plan_items(
            PLAN.of(view).event,
            steps,
            is_finished=info.status == "finished",
            work={call.key: item for item, call in work_on_plan(view)},
        ),
        steps=tuple(steps),
        doubts=tuple(doubt_line(doubt, view) for doubt in doubts),
        questions=tuple(question_line(asked) for asked in questions),
        waits=_waits(info, view),
        files=tuple(_files(view)),
        result=read(finished).get("value") if finished and view.result is not None else None,
        circle=(circle := _circle(events)),
        spent=bill(BUDGET.of(view).spent),
        budget=_budget(view),
        cancellation=_cancelled(events) if info.status == Status.CANCELLED else "",
        taken_from=taken_from(view),
        losses=losses_of(view),
        promises=promise_lines(promises or PROMISES.of(view).both()),
        next=next_move(
            info,
            view,
            doubts,
            desk,
            questions=questions,
            drifted_from=_drifted_from(events),
            circle=circle,
            is_out_of_budget=_is_out_of_budget(events),
            handed_to=_handed_to(events),
        ),
    )


def _files(view: View) -> Iterator[FileLine]:
    made = ARTIFACTS.of(view)
    latest = made.latest()
    under_way = {begun.path for begun in made.under_way.values()}
    for path in sorted({*latest, *made.orphans, *under_way}):
        version = latest.get(path)
        state = "an orphan" if path in made.orphans else "under way" if path in under_way else "recorded"
        number, size = (0, 0) if version is None else (version.number, version.size_bytes)
        yield FileLine(path, number, size, state)


def _handed_to(events: Sequence[Event]) -> str | None:
    """Whom the run was handed over to when it was sealed; None where that is not why it is sealed, if it is."""
    last = events[-1] if events else None
    body = contents_of(last.body) if last is not None and last.kind == Kind.RUN_SEALED else {}
    return str(body["to"]) if "handoff" in body else None


def _cancelled(events: Sequence[Event]) -> str:
    """By whom, when and why."""
    event = next((event for event in reversed(events) if event.kind == Kind.RUN_CANCELLED), None)
    return "" if event is None else f"{tell(event).detail}, {moment(event.at)}"


def _waits(info: RunInfo, view: View) -> tuple[WaitLine, ...]:
    """What it waits for; nothing where it is over."""
    if info.status in OVER:
        return ()
    return tuple(WaitLine(wait_words(w), w.since, w.until) for w in WAITS.of(view).open.values())


def _budget(view: View) -> dict[str, Any] | None:
    """What the last attempt was allowed to spend; None without a limit."""
    return fields_of(view.attempts[-1].event.body).get("budget") if view.attempts else None


def _is_out_of_budget(events: Sequence[Event]) -> bool:
    """Whether the last attempt was stopped by its budget."""
    end = next((event for event in reversed(events) if event.kind == Kind.ATTEMPT_ENDED), None)
    error = part_of(end.body, "error") if end else None
    return error is not None and str(error.get("type", "")).endswith(BudgetExceeded.__name__)


def _drifted_from(events: Sequence[Event]) -> str:
    """The key of the recorded call in whose place the program last asked for another; empty if it never did."""
    drift = next((event for event in reversed(events) if event.kind == Kind.DRIFTED), None)
    return str(fields_of(drift.body)["recorded"]) if drift else ""


def _circle(events: Sequence[Event]) -> str:
    """What the agent repeats now, in words; empty once it has done something new, was let go on, or has finished."""
    was_let_go = False
    for event in reversed(events):
        if event.kind in {Kind.LOOP_LEFT, Kind.RUN_FINISHED}:
            break
        was_let_go |= event.kind == Kind.ATTEMPT_STARTED
        if event.kind == Kind.LOOP_NOTICED:
            body = contents_of(event.body)
            is_over = body["level"] == "warn" or (body["level"] == "pause" and was_let_go)
            return "" if is_over else circle_line(body)
    return ""


def _attempts(info: RunInfo, view: View, events: Sequence[Event]) -> tuple[AttemptLine, ...]:
    """The attempts with the last thing known of each: from the record of its end, or from where it stands."""
    ends = [event for event in events if event.kind in (Kind.ATTEMPT_CRASHED, Kind.ATTEMPT_ENDED)]
    lines = []
    begins = [attempt.event.seq for attempt in view.attempts] + [view.head + 1]
    for attempt, (first, after) in zip(view.attempts, pairwise(begins), strict=True):
        body = contents_of(attempt.event.body)
        # One that was left behind by a fork or a rewind has no end: each end belongs to the attempt that it lies in.
        end = next((end for end in ends if first <= end.seq < after), None)
        took_s = None if attempt.ended_at is None else attempt.ended_at - attempt.event.at
        if end is not None:
            how, last = attempt.how or "", _last(contents_of(end.body))
        else:
            how, last = (attempt.how, "") if attempt.how else _open_end(info, view)
        if how == "crashed":
            took_s = None  # its end was found out later, by the next attempt
        lines.append(
            AttemptLine(attempt.number, how, attempt.event.at, took_s, owner_name(body["owner"]), last)
        )
    return tuple(lines)


def _last(end: dict[str, Any]) -> str:
    return one_line(end["last"]) if "last" in end else failure_line(end.get("error"))


def _open_end(info: RunInfo, view: View) -> tuple[str, str]:
    """Of an attempt that has no recorded end: it runs, or its process is gone."""
    open_calls = view.open_calls()
    last = ""
    if open_calls:
        last = "in the middle of " + ", ".join(repr(call.name) for call in open_calls[-5:])
    elif view.last is not None and (doing := view.doing_at(view.last)):
        last = doing
    elif view.last is not None:
        last = f"after {view.last.kind} {view.last.name!r}" if view.last.name else f"after {view.last.kind}"
    return info.status, last
