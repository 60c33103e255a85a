"""The loss of facts by a handoff: a taker elsewhere does not share the memory of the store that has them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from holdfast.core.journal.fold import View
from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.core.llm.reasoning import Read, value_in
from holdfast.model.event_fields import is_hollow
from holdfast.model.events import REMEMBERED, Event
from holdfast.model.handoff import Loss

_SHOWN_MAX: Final = 3
_TEXT_CHARS: Final = 80
_OF_GIVER: Final = "memory"
"""The name of such a loss in the documents of earlier versions, which meant the giver's store."""


def losses_of_facts(
    view: View, read: Read, store: str, document_in: Callable[[Event], Mapping[str, Any]]
) -> Iterator[Loss]:
    """The facts that a run and those whose handoffs it continues have remembered: a loss for each of them.

    The name of the loss is the store. For a taker in that store it is none.
    """
    handed = HANDOFF.of(view).handed
    document = document_in(handed) if handed is not None else {"left_out": ()}
    for one in document["left_out"]:
        if one["what"] == "fact":
            yield Loss("fact", memory_of(one["name"], document), one["why"], one["advice"])
    # A mark has no intent; a step of the program's may have the same name.
    calls = (call for call in view.calls.values() if call.name == REMEMBERED and not call.seq)
    bodies = (outcome.body for call in calls for outcome in call.outcomes)
    facts = (None if body is None or is_hollow(body) else value_in(body, read) for body in bodies)
    texts = [*dict.fromkeys(str(fact["text"]) for fact in facts if isinstance(fact, dict) and "text" in fact)]
    if texts:
        shown = "; ".join(text[:_TEXT_CHARS] for text in texts[:_SHOWN_MAX])
        more = f"; and {len(texts) - _SHOWN_MAX} more" if len(texts) > _SHOWN_MAX else ""
        why = f"what the giver has remembered is in the memory of {store}: {shown}{more}"
        advice = "`holdfast memories --export FILE` there, `holdfast memories --import FILE` here"
        yield Loss("fact", store, why, advice)


def memory_of(name: str, document: Mapping[str, Any]) -> str:
    """The store whose memory has the facts of a loss in a document."""
    return str(document["store"]) if name == _OF_GIVER else name
