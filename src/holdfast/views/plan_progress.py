"""How far a recorded plan has come, as far as names can tell.

A plan is a list of words; a step of the same name, or in a scope of that name at the top, is taken as work on it. What
cannot be told that way is left open rather than guessed.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from holdfast.core.reports.progress import planned
from holdfast.model.events import Event
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
    """The plan with the status of each item; empty where none was recorded. ``work`` tells by a step's key what item it is for."""
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
    """``is_past``: the program went on to a later item, so that this one is not still growing."""
    if not own:
        return "unknown" if is_past else "not_begun"
    if any(step.outcome == "in_doubt" for step in own):
        return "in_doubt"
    if own[-1].outcome == "failed":
        return "failed"
    if is_finished or (is_past and all(step.outcome != "running" for step in own)):
        return "done"
    return "under_way"
