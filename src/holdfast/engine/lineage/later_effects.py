"""Reads the effects that a run and its children have after a point, as a fork or a rewind records them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from orjson import dumps, loads

from holdfast.core.journal.fold import View
from holdfast.core.lineage.children import ChildrenAt, Descendant
from holdfast.core.lineage.later_effects import CARRIED, blobs_of, child_of, effects_behind, in_child
from holdfast.core.lineage.later_effects_fold import AGAIN, LATER_EFFECTS
from holdfast.engine.journal.blob_content import content_in
from holdfast.engine.journal.drafts import Draft, draft
from holdfast.engine.journal.load_view import bodies_in, load
from holdfast.engine.lineage.descendants import children_at
from holdfast.engine.lineage.places import find_kinds
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Event, Kind
from holdfast.model.store_rows import Blob, RunRow
from holdfast.stores.port import StorePort

_LISTING: Final = frozenset({Kind.RUN_FORKED, Kind.RUN_REWOUND})


def entries_behind(store: StorePort, run: str, at_seq: int) -> list[dict[str, Any]]:
    """The effects that a run has after an event, as a fork records them. At the head, nothing is read."""
    row = store.find_run(run)
    if row is None or at_seq >= row.head:
        return []
    # Forks and rewinds may list effects: with one of them, only the journal says which are behind.
    intents = find_kinds(store, row, {Kind.STEP_STARTED}, after_seq=at_seq, without=_LISTING)
    if intents is not None and all(fields_of(one.body).get("effect") not in CARRIED for one in intents):
        return []
    return entries_left(store, run, load(store, run), at_seq)


def entries_of(store: StorePort, children: Sequence[Descendant]) -> list[dict[str, Any]]:
    """All effects of these children, as a fork of their parent records them."""
    return [entry for one in children for entry in in_child(entries_behind(store, one.run, 0), one.name)]


def all_entries_behind(store: StorePort, row: RunRow, at_seq: int) -> tuple[list[dict[str, Any]], ChildrenAt]:
    """The effects behind an event, those of children begun later included; and the children."""
    children = children_at(store, row, at_seq)
    return [*entries_behind(store, row.run, at_seq), *entries_of(store, children.later)], children


def entries_left(store: StorePort, run: str, view: View, at_seq: int, kept: str = "") -> list[dict[str, Any]]:
    """The effects after an event. ``kept`` is the run that has them from now on, if it is another one."""
    listed = entries_listed(store, [event for event in LATER_EFFECTS.of(view).events if event.seq > at_seq])
    # A child that exists lists its own effects, and those that its parent listed for it.
    inherited = [entry for entry in listed if not is_born(store, run, child_of(entry))]
    return effects_behind(kept or run, view, at_seq, bodies_in(store, run), inherited)


def is_born(store: StorePort, run: str, child: str) -> bool:
    """Whether a child, or one that it is a descendant of, has a journal."""
    while child:
        row = store.find_run(f"{run}/{child}")
        if row is not None and row.head:
            return True
        child = child.rpartition("/")[0]
    return False


def entries_listed(store: StorePort, events: Sequence[Event]) -> list[dict[str, Any]]:
    """The effects that fork and rewind events list, of the run and its children; a later entry wins.

    What one of them lists to be made again is not known any more.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        listed = {(child_of(entry), entry["key"]): entry for entry in loads(content_in(store, event)) or ()}
        if fields_of(event.body).get("effects") == AGAIN:
            found = {name: entry for name, entry in found.items() if name not in listed}
        else:
            found.update(listed)
    return list(found.values())


def entries_told(store: StorePort, events: Sequence[Event]) -> dict[str, dict[str, Any]]:
    """Those of the run itself, by the keys of their calls."""
    return {entry["key"]: entry for entry in entries_listed(store, events) if not child_of(entry)}


def is_claimed(store: StorePort, view: View, key: str) -> bool:
    """Whether this history has asked for the effect of this call since a fork or a rewind listed it.

    A call that was begun before has failed there, and was made again in the history that was left.
    """
    call = view.calls.get(key)
    if call is None:
        return False
    later = [event for event in LATER_EFFECTS.of(view).events if event.seq > call.seq > 0]
    return not any(key in entries_told(store, [event]) for event in later)


def with_effects(kind: str, fields: dict[str, Any], behind: Sequence[dict[str, Any]], repeats: str) -> Draft:
    """A fork or rewind event with the effects after its point. One event, so that a crash cannot split it."""
    if not repeats:
        return draft(kind, "", "", fields)
    listed = [*_names_of(behind)] if repeats == AGAIN else behind
    named = [] if repeats == AGAIN else sorted({*blobs_of(behind)})
    more = {"effects": repeats, **({"blobs": named} if named else {})}
    made = draft(kind, "", "", {**fields, **more}, dumps(listed))
    return made._replace(blobs=(*made.blobs, *(Blob(address) for address in named)))


def _names_of(entries: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return ({name: value for name, value in entry.items() if name in {"child", "key"}} for entry in entries)
