"""Finds the children of a run for its context. Their journals are read when a line about them is written."""

from collections.abc import Iterable
from functools import partial

from holdfast.core.context.child_lines import Children, ChildStory
from holdfast.core.lineage.children import Descendant
from holdfast.engine.journal.journal import read_all
from holdfast.engine.journal.lineage_names import lineage_names
from holdfast.engine.lineage.descendants import children_at
from holdfast.errors import Corrupt
from holdfast.model.events import Event
from holdfast.stores.port import StorePort


def child_stories(store: StorePort, run: str, at_seq: int | None = None) -> Children:
    """The descendants of a run that exist at this event, or now: as a fork made now would borrow them."""
    row = store.find_run(run)
    if row is None:
        return Children()
    begun = children_at(store, row, row.head if at_seq is None else at_seq).begun
    stories = [
        ChildStory(
            child.name,
            child.is_over,
            bool(child.owner) and store.probe(child.owner) == "alive",
            partial(_events, store, child),
        )
        for child in begun
    ]
    return Children(stories, lineage_names(store, run) if stories else ())


def _events(store: StorePort, child: Descendant) -> Iterable[Event] | None:
    """The events of a child; None if they are damaged, or were pruned before a fork asked for the child."""
    try:
        return read_all(store, child.run, upto_seq=child.head) or None
    except Corrupt:
        return None
