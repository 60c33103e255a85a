"""The table of runs."""

from typing import Final

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.journal.event_check import UNSOUND
from holdfast.core.journal.fold import View
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.reports.progress import Overview, last_sign, plan_position
from holdfast.model.budget import NOTHING_SPENT
from holdfast.model.event_fields import contents_of
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.store_rows import OVER, Liveness, Status, owner_name
from holdfast.views.cost import bill
from holdfast.views.handoff import taken_from
from holdfast.views.questions import provider_wait, wait_words, waits_for
from holdfast.views.value_text import ago, one_line

_WAITING: Final = frozenset({Status.RUNNING, Status.PARKED, Status.IDLE, "stale"})


class RunLine(NamedTuple):
    """One run.

    ``status`` includes what is not recorded: crashed, stale, damaged, not_begun, set_aside.
    """

    run: str
    status: str
    goal: str
    point: int
    plan_step: int | None
    plan_steps: int | None
    plan_item: str
    attempts: int
    taken_from: str
    in_doubt: int
    open_questions: int
    waits_for: str
    provider: str
    """The provider that it waits for, and why; empty if it waits for none."""
    provider_since_at: float | None
    events: int
    size_bytes: int | None
    tokens: int | None
    cost: float | None
    unknown_cost_calls: int
    created_at: float
    age_s: float
    last_sign: str
    last_sign_at: float
    quiet_s: float
    holder: str
    liveness: Liveness | None
    damage: str
    """Why the run cannot be read; empty if it can."""


def run_line(overview: Overview, *, now: float) -> RunLine:
    """The line of a run; for an unreadable one, that it is damaged and why."""
    try:
        return _line(overview, now)
    except UNSOUND as error:  # damage in parts that the fold does not read
        return _line(damaged(overview, error), now)


def damaged(overview: Overview, error: Exception) -> Overview:
    """What is left of a run that a later look could not read."""
    info = overview.info._replace(status="damaged")
    return Overview(info, None, damage=f"{type(error).__name__}: {error}")


def _line(overview: Overview, now: float) -> RunLine:
    info, view, in_doubt, size_bytes, damage = overview
    made = bill(BUDGET.of(view).spent if view else NOTHING_SPENT)
    sign = last_sign(info, view)
    position = plan_position(view) if view else None
    wait = provider_wait(view) if info.status in _WAITING else None
    is_waiting = info.status not in OVER and info.status != Status.SEALED
    return RunLine(
        run=info.run,
        status=info.status,
        goal=goal_of(view),
        point=view.points if view else 0,
        plan_step=position.step if position else None,
        plan_steps=position.steps if position else None,
        plan_item=one_line(position.item) if position else "",
        attempts=view.next_attempt - 1 if view else 0,
        taken_from="" if (taken := taken_from(view)) is None else f"{taken.run}@#{taken.event}",
        in_doubt=in_doubt,
        open_questions=len(QUESTIONS.of(view).open) if view and is_waiting else 0,
        waits_for=waits_for(view) if is_waiting else "",
        provider=wait_words(wait) if wait else "",
        provider_since_at=wait.since if wait else None,
        events=info.head,
        size_bytes=size_bytes,
        tokens=made.tokens,
        cost=made.cost,
        unknown_cost_calls=made.unknown_cost_calls,
        created_at=info.created_at,
        age_s=round(max(0.0, now - info.created_at), 3),
        last_sign=sign.kind,
        last_sign_at=sign.at,
        quiet_s=round(max(0.0, now - sign.at), 3),
        holder=owner_name(info.lease.owner) if info.lease.owner else "",
        liveness=info.holder,
        damage=one_line(damage),
    )


def position_words(line: RunLine) -> str:
    """``step 3 of 7`` with a plan, else ``point 44``.

    For a run that has done nothing, the run it took over.
    """
    if line.taken_from and not line.point:
        return f"from {line.taken_from}"
    return (
        f"point {line.point:,}" if line.plan_step is None else f"step {line.plan_step} of {line.plan_steps}"
    )


def sign_words(line: RunLine) -> str:
    """``beat 3.0 s ago``."""
    return f"{line.last_sign} {ago(line.quiet_s)}"


def goal_of(view: View | None) -> str:
    """The run's goal in one line, or its agent's name if it has no goal."""
    if view is None or view.started is None:
        return ""
    body = contents_of(view.started.body)
    return one_line(body.get("goal") or (f"agent {body['agent']}" if body.get("agent") else ""))
