"""Where the giver's work stands: its plan, its premises, its open questions, and its budget."""

from collections.abc import Iterator
from typing import Any

from holdfast.core.budget.budget_fold import BUDGET
from holdfast.core.context.story import Story
from holdfast.core.people.question_fold import QUESTIONS
from holdfast.core.premises.noted_premises import PREMISES
from holdfast.core.reports.plan_fold import PLAN
from holdfast.core.reports.progress import planned, work_on_plan
from holdfast.model.event_fields import fields_of, part_of


def plan_of(story: Story) -> Iterator[dict[str, Any]]:
    """The items of the plan, and which are begun."""
    worked_on = {item for item, _ in work_on_plan(story.view)}
    for item in planned(PLAN.of(story.view).event):
        yield {"item": item, "begun": item in worked_on}


def premises_of(story: Story, kinds: set[str]) -> Iterator[dict[str, Any]]:
    """The premises of these kinds, and whether they hold."""
    for premise in PREMISES.of(story.view).values():
        if premise.kind in kinds:
            hidden = {"at", "texts"}  # a path here, and the user's source, are not for the taker
            facts = {name: value for name, value in (premise.facts or {}).items() if name not in hidden}
            broken = story.broken.get(premise.id)
            state = "holds" if broken is None else str(fields_of(broken.body).get("verdict", "broken"))
            yield {
                "kind": premise.kind,
                "name": premise.name,
                "state": state,
                "facts": facts,
                "events": [story.cite(premise.seq)],
            }


def questions_of(story: Story) -> Iterator[dict[str, Any]]:
    """The open questions."""
    for question in QUESTIONS.of(story.view).open.values():
        asked = story.events.get(question.seq)
        about = None if asked is None else part_of(asked.body, "about")
        yield {"id": question.id, "text": question.text, "about": about, "events": [story.cite(question.seq)]}


def budget_of(story: Story) -> dict[str, Any]:
    """What was allowed, spent, and is left."""
    view = story.view
    allowed = fields_of(view.attempts[-1].event.body).get("budget") if view.attempts else None
    spent: dict[str, float] = {
        "tokens": BUDGET.of(view).spent.tokens,
        "cost": BUDGET.of(view).spent.cost,
        "calls": BUDGET.of(view).spent.calls,
        "wall_s": round(view.worked_upto_last_s, 3),
    }
    limits = {name: value for name, value in (allowed or {}).items() if name in spent}
    left = {name: max(0, round(value - spent[name], 6)) for name, value in limits.items()}
    return {"allowed": limits or None, "spent": spent, "left": left or None}
