"""How far a run has come: in its plan, where it has one, and when it last gave a sign of life.

A plan is a list of words. A step of the same name, or a call in a scope of that name at the top, is taken as work on it;
the item whose work was begun last is where the run stands. What cannot be told that way is not guessed.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import known_cost, known_tokens
from holdfast.core.journal.fold import View
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.steps.identity import scope_of
from holdfast.model.calls import Call
from holdfast.model.event_fields import fields_of, part_of
from holdfast.model.events import Event
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import Status


class PlanPosition(NamedTuple):
    """Item ``step`` of ``steps`` is being worked on, or was last; 0 before anything of the plan was begun."""

    step: int
    steps: int
    item: str


class LastSign(NamedTuple):
    """The last sign of life: a ``beat`` of the holder, an ``event`` in the journal, or that the run was ``made``."""

    at: float
    kind: Literal["beat", "event", "made"]


class Overview(NamedTuple):
    """A run, looked at: what its journal tells, its steps in doubt and its size on disk.

    Without a view, the journal cannot be read; without a size, something that it refers to cannot.
    """

    info: RunInfo
    view: View | None
    in_doubt: int = 0
    size_bytes: int | None = None
    damage: str = ""
    """Why the run cannot be understood, where its status is ``damaged``."""

    @property
    def tokens(self) -> int | None:
        """What its model calls took, as far as it is known; None where nothing is known of any."""
        return None if self.view is None else known_tokens(BUDGET.of(self.view).spent)

    @property
    def cost(self) -> float | None:
        """The same in US dollars."""
        return None if self.view is None else known_cost(BUDGET.of(self.view).spent)


def plan_position(view: View) -> PlanPosition | None:
    """Where the run stands in its latest plan; None where it has none."""
    items = planned(PLAN.of(view).event)
    if not items:
        return None
    if view.status == Status.FINISHED:
        return PlanPosition(len(items), len(items), items[-1])
    places = {item: [place for place, other in enumerate(items, 1) if other == item] for item in items}
    at = 0
    for item, _ in _begun(view, items):
        # Of an item that stands in the plan twice, the next one is meant; where none follows, it is done again.
        at = next((place for place in places[item] if place >= at), places[item][-1])
    return PlanPosition(at, len(items), items[at - 1] if at else "")


def planned(plan: Event | None) -> list[str]:
    """The items of a plan."""
    value = None if plan is None else part_of(plan.body, "value")
    steps = value.get("steps", ()) if isinstance(value, dict) else ()
    return [str(item) for item in steps]


def last_sign(info: RunInfo, view: View | None) -> LastSign:
    """When somebody or something was last heard of the run."""
    event_at = view.last.at if view is not None and view.last is not None else 0.0
    beat_at = info.lease.beat_at if info.lease.owner else 0.0
    if max(event_at, beat_at) == 0.0:
        return LastSign(info.created_at, "made")
    return LastSign(beat_at, "beat") if beat_at > event_at else LastSign(event_at, "event")


def work_on_plan(view: View) -> Iterator[tuple[str, Call]]:
    """The items of the plan that work was begun on, in that order, each as often as it was, with the call."""
    return _begun(view, planned(PLAN.of(view).event))


def latest_of_plan(view: View) -> Iterable[Call]:
    """Of each item of the plan the call that work on it was begun with last: from these the position can be told."""
    return dict(_begun(view, planned(PLAN.of(view).event))).values()


def _begun(view: View, items: list[str]) -> Iterator[tuple[str, Call]]:
    """The items that work was begun on, in that order, each as often as it was, with the call."""
    scopes = {scope_of("", item): item for item in items}
    for call in sorted(view.calls.values(), key=lambda call: call.seq):
        if call.seq == 0:
            continue  # a mark
        if call.name in items:
            yield call.name, call
        elif call.body is not None and (item := scopes.get(_top_scope(call.body))) is not None:
            yield item, call


def _top_scope(intent: bytes) -> str:
    """The outermost scope that a call stands in; empty for one in none, or inside a step."""
    scope: str = fields_of(intent).get("in", "")
    return ":" + scope.split(":", 2)[1] if scope.startswith(":") else ""
