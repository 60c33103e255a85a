"""Handoffs and promises for people: the origin of a run's work, promises, and the content of a handoff."""

from collections.abc import Mapping
from typing import Any

from holdfast.core.journal.fold import View
from holdfast.core.lineage.handoff_fold import HANDOFF
from holdfast.core.text.value_text import count
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.handoff import Loss, Promise, Promises
from holdfast.model.named_tuple import NamedTuple


class HandoffOrigin(NamedTuple):
    """The origin of a run that started with a handoff."""

    run: str
    store: str
    event: int
    to: str

    @property
    def words(self) -> str:
        """``debt at #41 of sqlite:///…``."""
        return f"{self.run} at #{self.event} of {self.store}"


class PromiseLine(NamedTuple):
    """One promise, from this run's side."""

    id: str
    side: str
    text: str
    by: str
    to: str
    state: str
    made_at: float
    due_at: float | None
    note: str


def taken_from(view: View | None) -> HandoffOrigin | None:
    """The origin of a run's work; None if it did not start with a handoff."""
    source = fields_of(view.started.body).get("handed_over") if view is not None and view.started else None
    return (
        None
        if source is None
        else HandoffOrigin(source["run"], source["store"], source["event"], source["to"])
    )


def losses_of(view: View) -> tuple[Loss, ...]:
    """What could not be carried over when the run began."""
    handed = HANDOFF.of(view).handed
    losses = () if handed is None else contents_of(handed.body).get("losses", ())
    return tuple(Loss(**one) for one in losses)


def promise_lines(promises: Promises) -> tuple[PromiseLine, ...]:
    """The promises that a run has made, then those it was given."""
    return tuple(map(_line, (*promises.made, *promises.received)))


def _line(one: Promise) -> PromiseLine:
    return PromiseLine(one.id, one.side, one.text, one.by, one.to, one.state, one.at, one.due, one.note)


def carried_words(document: Mapping[str, Any]) -> str:
    """The content of a handoff, in numbers."""
    parts = [count(len(document["effects"]), "effect") + " that will not be repeated"]
    if document["in_doubt"]:
        parts.append(f"{len(document['in_doubt'])} in doubt")
    for name, word in (("promises", "promise"), ("decisions", "decision"), ("questions", "open question")):
        if document[name]:
            parts.append(count(len(document[name]), word))
    if document["state"] is not None:
        parts.append("its state")
    if document["messages"]:
        parts.append(count(len(document["messages"]), "message"))
    return ", ".join(parts)
