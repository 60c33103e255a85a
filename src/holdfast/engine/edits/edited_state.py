"""The edited state of a fork: a checkpoint that a person made, in place of the latest one of the history.

It is recorded behind the fork's first event, and keeps the cursor of the state whose place it takes:
``run.restore`` returns it and continues from there. Only the nodes that differ are written.
"""

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.codec.blobs import address_of
from holdfast.codec.values import left_out, recorded_tree
from holdfast.core.journal.fold import fold
from holdfast.core.lineage.points import place_at
from holdfast.core.lineage.restart_point import has_restored
from holdfast.core.state.tree import StoredNodes
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.state.state_store import WHAT, blobs_of, fetcher, lineage_of
from holdfast.errors import Misuse
from holdfast.model.event_fields import contents_of, fields_of
from holdfast.model.events import CHAINED, EDITED, Event, Kind
from holdfast.stores.port import StorePort

_COPIED = ("path", "unsaid")


def edited_state(
    store: StorePort, run: str, events: Sequence[Event], value: Any, by: str
) -> Callable[[], Draft]:
    """Check an edited state at the end of this history; returns what makes its event.

    Call that when the fork has its row: from then on no prune takes the nodes that the state builds on.
    Raises Misuse if no program would see the state, NotStorable, TooLarge.
    """
    base = base_of(run, events)
    tree = recorded_tree(value, what=WHAT)
    StoredNodes(address_of).plant(tree)  # TooLarge, before anything is written

    def made() -> Draft:
        nodes = StoredNodes(address_of, lineage_of(store, run))
        nodes.learn(contents_of(base.body)["state"], fetcher(store))
        planted = nodes.plant(tree)
        known = fields_of(base.body)
        fields = {
            "label": None,
            "upto_seq": known.get("upto_seq", base.seq),
            "after": known.get("after", base.key),
            **{name: known[name] for name in _COPIED if name in known},
            **({"rebuild": paths} if (paths := left_out(tree)) else {}),
            **({"by": by} if by else {}),
            "state_bytes": planted.size,
        }
        event = draft(Kind.CHECKPOINT, EDITED, "", fields, parts={"state": planted.root})
        return event._replace(blobs=blobs_of(planted))

    return made


def base_of(run: str, events: Sequence[Event]) -> Event:
    """The checkpoint whose state would be edited: the end of this history. Misuse if there is none."""
    view = fold(events)
    base = view.checkpoint
    if base is None:
        raise Misuse(
            problem=f"run {run} has no state up to there, so none can be edited",
            advice="its program replays: give a step another outcome instead, with override",
        )
    if base.name == CHAINED:
        raise Misuse(
            problem=f"the states of run {run} belong to a framework, which keeps them in a form of its own",
            advice="edit the state with the framework, and let it continue the thread",
        )
    if not has_restored(events, view):
        raise Misuse(
            problem=f"the program of run {run} has never restored a state: it replays from the top, and "
            "would not see another one",
            advice="let it call run.restore(); or give a step another outcome, with override",
        )
    if any(outcome.seq > base.seq for call in view.calls.values() for outcome in call.outcomes):
        place = place_at(run, events, base.seq)
        raise Misuse(
            problem=f"the latest state up to there is that of {place}, and more is recorded behind it",
            advice=f"fork {place}: a program that restores another state may take another way from there",
        )
    return base
