"""The progress of a recorded plan, as far as names show it.

A plan is a list of texts. A step with the same name, or in a top-level scope of that name, counts as work on
the item. Where names are ambiguous, the status is unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from holdfast.core.reports.progress import planned
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.steps import StepLine

PlanStatus = Literal["done", "under_way", "failed", "in_doubt", "not_begun", "unknown"]


class PlanItem(NamedTuple):
    """One line of the plan. ``steps`` counts the recorded steps of that name or in that scope."""

    text: str
    status: PlanStatus
    steps: int


def plan_items(
    plan: Event | None, steps: Sequence[StepLine], *, is_finished: bool, work: Mapping[str, str] | None = None
) -> tuple[PlanItem, ...]:
    """The plan with the status of each item; empty without a plan. ``work`` maps a step's key to its item."""
    texts, work = planned(plan), work or {}
    of_item = [
        [step for step in steps if step.what == "step" and work.get(step.key, step.name) == text]
        for text in texts
    ]
    last_begun = max((number for number, own in enumerate(of_item) if own), default=-1)
    return tuple(
        PlanItem(
            text, _status(own, is_past=is_finished or number < last_begun, is_finished=is_finished), len(own)
        )
        for number, (text, own) in enumerate(zip(texts, of_item, strict=True))
    )


def _status(own: Sequence[StepLine], *, is_past: bool, is_finished: bool) -> PlanStatus:
    """``is_past``: the program reached a later item, so this one is complete."""
    if not own:
        return "unknown" if is_past else "not_begun"
    if any(step.outcome == "in_doubt" for step in own):
        return "in_doubt"
    if own[-1].outcome == "failed":
        return "failed"
    if is_finished or (is_past and all(step.outcome != "running" for step in own)):
        return "done"
    return "under_way"
