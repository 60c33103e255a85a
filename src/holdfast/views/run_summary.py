"""A run in full, for ``show``: its goal, its status, its attempts and steps, and what to do next."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from holdfast.core.artifacts.versions import ARTIFACTS
from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.journal.call_notes import noted_behind
from holdfast.core.journal.fold import View, fold
from holdfast.core.people.promises import PROMISES
from holdfast.core.people.wait_fold import WAITS
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.reports.progress import Overview, work_on_plan
from holdfast.errors import BudgetExceeded
from holdfast.model.event_fields import contents_of, fields_of, part_of
from holdfast.model.events import Event, Kind
from holdfast.model.handoff import Loss, Promises
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.recorded_command import Command
from holdfast.model.run_info import Doubt, OpenQuestion, RunInfo, StoppedCall
from holdfast.model.store_rows import OVER, Status, owner_name
from holdfast.views.acts import ActLine
from holdfast.views.cost import ModelCost, bill
from holdfast.views.event_text import describe, loop_line
from holdfast.views.handoff import HandoffOrigin, PromiseLine, losses_of, promise_lines, taken_from
from holdfast.views.in_doubt import DoubtLine, StoppedLine, doubt_line, stopped_line
from holdfast.views.next_commands import CommandBuilder, NextAction, next_action
from holdfast.views.plan_progress import PlanItem, plan_items
from holdfast.views.questions import QuestionLine, question_line, wait_words
from holdfast.views.rewind_cost import changed_call_choices
from holdfast.views.runs import RunLine, run_line
from holdfast.views.steps import StepLine, list_steps
from holdfast.views.value_text import clock_time, failure_line, moment, one_line


class AttemptLine(NamedTuple):
    """One attempt: its process, its times, its end, and its last record.

    ``how`` is ``running`` until an end is known.
    """

    number: int
    how: str
    started_at: float
    took_s: float | None
    holder: str
    last: str


class WaitLine(NamedTuple):
    """One thing that the run waits for, other than answers.

    ``until`` is the end of the wait, if it is known.
    """

    what: str
    since_at: float
    until_at: float | None


class FileLine(NamedTuple):
    """A file of the run.

    ``state``: recorded, an orphan, or under way: started by an attempt and not recorded.
    """

    path: str
    version: int
    size_bytes: int
    state: str


class ChildLine(NamedTuple):
    """A descendant: its name behind the run's, its status, and its steps."""

    run: str
    name: str
    status: str
    steps: int
    last_step: str
    in_doubt: int
    tokens: int | None
    cost: float | None


class RunSummary(NamedTuple):
    """Everything that ``holdfast show RUN`` shows.

    ``circle`` is what the agent repeats; empty unless it was nudged or paused. ``spent`` is the usage of its
    model calls, ``budget`` the limit of the last attempt, ``cancellation`` says who cancelled it.
    ``taken_from`` is the run that handed its work to this one, and ``losses`` what was not carried over.
    ``came_from`` is the origin of an imported history, and ``command`` the last command, if that is foreign.
    """

    line: RunLine
    agent: str
    inputs: Any
    attempts: tuple[AttemptLine, ...]
    plan: tuple[PlanItem, ...]
    steps: tuple[StepLine, ...]
    doubts: tuple[DoubtLine, ...]
    stopped: tuple[StoppedLine, ...]
    questions: tuple[QuestionLine, ...]
    waits: tuple[WaitLine, ...]
    files: tuple[FileLine, ...]
    result: Any
    circle: str
    spent: ModelCost
    budget: dict[str, Any] | None
    cancellation: str
    taken_from: HandoffOrigin | None
    losses: tuple[Loss, ...]
    promises: tuple[PromiseLine, ...]
    next: NextAction
    came_from: str = ""
    command: Command | None = None
    children: tuple[ChildLine, ...] = ()
    """Its descendants, in the order in which they began."""
    acts: tuple[ActLine, ...] = ()
    """What people did with it, oldest first."""


def child_lines(run: str, overviews: Sequence[Overview]) -> tuple[ChildLine, ...]:
    """The descendants of a run, from their overviews, newest first as a store lists them."""
    return tuple(_child_line(run, one) for one in reversed(overviews))


def _child_line(run: str, child: Overview) -> ChildLine:
    view = child.view
    steps = [] if view is None else [call for call in view.calls.values() if call.seq and call.outcomes]
    return ChildLine(
        child.info.run,
        child.info.run[len(run) + 1 :],
        child.info.status,
        len(steps),
        "" if view is None else view.last_step,
        child.in_doubt,
        child.tokens,
        child.cost,
    )


def summarize(
    info: RunInfo,
    events: Sequence[Event],
    doubts: Sequence[Doubt],
    questions: Sequence[OpenQuestion] = (),
    stopped: Sequence[StoppedCall] = (),
    *,
    now: float,
    size_bytes: int | None,
    builder: CommandBuilder,
    promises: Promises | None = None,
    read: Callable[[Event], dict[str, Any]],
) -> RunSummary:
    """The summary of a run from its events and its holder's state; ``read`` gives a full body."""
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
        stopped=tuple(map(stopped_line, stopped)),
        questions=tuple(question_line(asked) for asked in questions),
        waits=_waits(info, view),
        files=tuple(_files(view)),
        result=read(finished).get("value") if finished and view.result is not None else None,
        circle=(circle := _loop(events)),
        spent=bill(BUDGET.of(view).spent),
        budget=_budget(view),
        cancellation=_cancelled(events) if info.status == Status.CANCELLED else "",
        taken_from=taken_from(view),
        losses=losses_of(view),
        promises=promise_lines(promises or PROMISES.of(view).both()),
        next=next_action(
            info,
            view,
            doubts,
            builder,
            questions=questions,
            stopped=stopped,
            drifted_from=_drifted_from(events),
            with_change=changed_call_choices(info.run, events, builder)
            if info.status == Status.DIVERGED
            else (),
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
    """The receiver of a run that was sealed by a handoff; None if it was not."""
    last = events[-1] if events else None
    body = contents_of(last.body) if last is not None and last.kind == Kind.RUN_SEALED else {}
    return str(body["to"]) if "handoff" in body else None


def _cancelled(events: Sequence[Event]) -> str:
    """Who cancelled it, when and why."""
    event = next((event for event in reversed(events) if event.kind == Kind.RUN_CANCELLED), None)
    return "" if event is None else f"{describe(event).detail}, {moment(event.at)}"


def _waits(info: RunInfo, view: View) -> tuple[WaitLine, ...]:
    """What it waits for; nothing if it is over."""
    if info.status in OVER:
        return ()
    return tuple(WaitLine(wait_words(w), w.since, w.until) for w in WAITS.of(view).open.values())


def _budget(view: View) -> dict[str, Any] | None:
    """The spending limit of the last attempt; None without a limit."""
    return fields_of(view.attempts[-1].event.body).get("budget") if view.attempts else None


def _is_out_of_budget(events: Sequence[Event]) -> bool:
    """Whether the last attempt was stopped by its budget."""
    end = next((event for event in reversed(events) if event.kind == Kind.ATTEMPT_ENDED), None)
    error = part_of(end.body, "error") if end else None
    return error is not None and str(error.get("type", "")).endswith(BudgetExceeded.__name__)


def _drifted_from(events: Sequence[Event]) -> str:
    """The key of the recorded call that the program last drifted from; empty if it never drifted."""
    drift = next((event for event in reversed(events) if event.kind == Kind.DRIFTED), None)
    return str(fields_of(drift.body)["recorded"]) if drift else ""


def _loop(events: Sequence[Event]) -> str:
    """What the agent repeats now; empty once it has done something new, was let go on, or has finished."""
    was_let_go = False
    for event in reversed(events):
        if event.kind in {Kind.LOOP_LEFT, Kind.RUN_FINISHED}:
            break
        was_let_go |= event.kind == Kind.ATTEMPT_STARTED
        if event.kind == Kind.LOOP_NOTICED:
            body = contents_of(event.body)
            is_over = body["level"] == "warn" or (body["level"] == "pause" and was_let_go)
            return "" if is_over else loop_line(body)
    return ""


def _attempts(info: RunInfo, view: View, events: Sequence[Event]) -> tuple[AttemptLine, ...]:
    """The attempts with the last record of each, from the event of its end or from the view."""
    ends = [event for event in events if event.kind in (Kind.ATTEMPT_CRASHED, Kind.ATTEMPT_ENDED)]
    lines = []
    begins = [attempt.event.seq for attempt in view.attempts] + [view.head + 1]
    for attempt, (first, after) in zip(view.attempts, pairwise(begins), strict=True):
        body = contents_of(attempt.event.body)
        # A fork or a rewind can leave an attempt without an end, so match each end to the attempt that
        # contains it.
        end = next((end for end in ends if first <= end.seq < after), None)
        took_s = None if attempt.ended_at is None else attempt.ended_at - attempt.event.at
        if end is not None:
            how, last = attempt.how or "", _last(contents_of(end.body))
        else:
            how, last = (attempt.how, "") if attempt.how else _open_end(info, view)
        if how == "crashed":
            took_s = None  # the next attempt discovered its end, so the time is unknown
        lines.append(
            AttemptLine(attempt.number, how, attempt.event.at, took_s, owner_name(body["owner"]), last)
        )
    return tuple(lines)


def _last(end: dict[str, Any]) -> str:
    return one_line(end["last"]) if "last" in end else failure_line(end.get("error"))


def _open_end(info: RunInfo, view: View) -> tuple[str, str]:
    """For an attempt without a recorded end: it runs, or its process is gone."""
    begun = [repr(call.name) for call in view.open_calls()]
    noted = noted_behind(info.noted, view.head)
    if noted is not None:
        begun.append(f"{noted.name!r} since {clock_time(noted.began_at)}")
    last = ""
    if begun:
        last = "in the middle of " + ", ".join(begun[-5:])
    elif view.last is not None and (doing := view.doing_at(view.last)):
        last = doing
    elif view.last is not None:
        last = f"after {view.last.kind} {view.last.name!r}" if view.last.name else f"after {view.last.kind}"
    return info.status, last
