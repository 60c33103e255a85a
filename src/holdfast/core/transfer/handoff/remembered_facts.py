"""The loss of a giver's facts: they are in its store's memory, which a taker elsewhere does not share."""

from collections.abc import Iterator
from typing import Final

from holdfast.core.journal.fold import View
from holdfast.core.llm.reasoning import Read, value_in
from holdfast.model.event_fields import is_hollow
from holdfast.model.events import REMEMBERED
from holdfast.model.handoff import Loss

_SHOWN_MAX: Final = 3
_TEXT_CHARS: Final = 80


def loss_of_facts(view: View, read: Read, store: str) -> Iterator[Loss]:
    """The facts that a run has remembered, as one loss. For a taker in the same store it is none."""
    calls = (call for call in view.calls.values() if call.name == REMEMBERED)
    bodies = (outcome.body for call in calls for outcome in call.outcomes)
    facts = (None if body is None or is_hollow(body) else value_in(body, read) for body in bodies)
    texts = [*dict.fromkeys(str(fact["text"]) for fact in facts if isinstance(fact, dict))]
    if texts:
        shown = "; ".join(text[:_TEXT_CHARS] for text in texts[:_SHOWN_MAX])
        more = f"; and {len(texts) - _SHOWN_MAX} more" if len(texts) > _SHOWN_MAX else ""
        why = f"what the giver has remembered is in the memory of {store}: {shown}{more}"
        advice = "`holdfast memories --export FILE` there, `holdfast memories --import FILE` here"
        yield Loss("fact", "memory", why, advice)
