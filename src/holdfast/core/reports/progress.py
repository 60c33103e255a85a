"""The progress of a run: its position in its plan, and its last sign of life.

A plan is a list of names. A step of that name, or a call in a top-level scope of that name, counts as work on
the item. The position is the item on which work began last. Nothing else is guessed.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.budget.spending import known_cost, known_tokens
from holdfast.core.journal.fold import View
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.steps.identity import scope_of
from holdfast.model.calls import Call
from holdfast.model.event_fields import fields_of, part_of
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.model.run_info import RunInfo
from holdfast.model.store_rows import Status


class PlanPosition(NamedTuple):
    """Item ``step`` of ``steps`` is the one worked on last; 0 before any work on the plan."""

    step: int
    steps: int
    item: str


class LastSign(NamedTuple):
    """The last sign of life: a ``beat`` of the holder, an ``event`` of the journal, or the creation."""

    at: float
    kind: Literal["beat", "event", "made"]


class Overview(NamedTuple):
    """A run with its view, the number of its steps in doubt, and its size on disk.

    ``view`` is None if the journal cannot be read; ``size_bytes`` is None if a blob of it cannot.
    """

    info: RunInfo
    view: View | None
    in_doubt: int = 0
    size_bytes: int | None = None
    damage: str = ""
    """Why the run cannot be read, if its status is ``damaged``."""

    @property
    def tokens(self) -> int | None:
        """The known tokens of its model calls; None if those of no call are known."""
        return None if self.view is None else known_tokens(BUDGET.of(self.view).spent)

    @property
    def cost(self) -> float | None:
        """The known cost of its model calls in US dollars; None if that of no call is known."""
        return None if self.view is None else known_cost(BUDGET.of(self.view).spent)


def plan_position(view: View) -> PlanPosition | None:
    """The position of a run in its latest plan; None if it has none."""
    items = planned(PLAN.of(view).event)
    if not items:
        return None
    if view.status == Status.FINISHED:
        return PlanPosition(len(items), len(items), items[-1])
    places = {item: [place for place, other in enumerate(items, 1) if other == item] for item in items}
    at = 0
    for item, _ in _begun(view, items):
        # If an item is in the plan twice, work on it means the next one; after the last, it is done again.
        at = next((place for place in places[item] if place >= at), places[item][-1])
    return PlanPosition(at, len(items), items[at - 1] if at else "")


def planned(plan: Event | None) -> list[str]:
    """The items of a plan."""
    value = None if plan is None else part_of(plan.body, "value")
    steps = value.get("steps", ()) if isinstance(value, dict) else ()
    return [str(item) for item in steps]


def last_sign(info: RunInfo, view: View | None) -> LastSign:
    """The last sign of life of a run."""
    event_at = view.last.at if view is not None and view.last is not None else 0.0
    beat_at = info.lease.beat_at if info.lease.owner else 0.0
    if max(event_at, beat_at) == 0.0:
        return LastSign(info.created_at, "made")
    return LastSign(beat_at, "beat") if beat_at > event_at else LastSign(event_at, "event")


def work_on_plan(view: View) -> Iterator[tuple[str, Call]]:
    """The work on the plan: each call in the order in which it began, with its item."""
    return _begun(view, planned(PLAN.of(view).event))


def latest_of_plan(view: View) -> Iterable[Call]:
    """The latest call of each plan item. Compaction keeps these, since they determine the position."""
    return dict(_begun(view, planned(PLAN.of(view).event))).values()


def _begun(view: View, items: list[str]) -> Iterator[tuple[str, Call]]:
    """The calls that are work on these items, in the order in which they began, each with its item."""
    scopes = {scope_of("", item): item for item in items}
    for call in sorted(view.calls.values(), key=lambda call: call.seq):
        if call.seq == 0:
            continue  # a mark
        if call.name in items:
            yield call.name, call
        elif call.body is not None and (item := scopes.get(_top_scope(call.body))) is not None:
            yield item, call


def _top_scope(intent: bytes) -> str:
    """The outermost scope of a call; empty if it is in none, or inside a step."""
    scope: str = fields_of(intent).get("in", "")
    return ":" + scope.split(":", 2)[1] if scope.startswith(":") else ""
