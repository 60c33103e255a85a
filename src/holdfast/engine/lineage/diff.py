"""Reads and compares two points of any runs of a store. Of their states, only what differs is read."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from orjson import loads

from holdfast.core.diff.diff_summary import sentences
from holdfast.core.diff.diff_types import Diff
from holdfast.core.diff.histories import History, compare, shared_prefix
from holdfast.core.diff.state_changes import StateChange, tell_changes
from holdfast.core.diff.state_diff import Change, find_changes
from holdfast.core.journal.fold import fold
from holdfast.core.journal.lineage import effective, meeting
from holdfast.core.state.nodes import Nodes
from holdfast.engine.journal.blob_content import read_blob
from holdfast.engine.journal.journal import chain_of, read_all
from holdfast.engine.state.state_store import fetcher
from holdfast.errors import Corrupt
from holdfast.model.event_fields import part_of
from holdfast.model.events import Event
from holdfast.stores.port import StorePort


def contrast(store: StorePort, a: tuple[str, str, int], b: tuple[str, str, int]) -> Diff:
    """What differs between two points. Each is (the text that the user gave, the run, the seq). Corrupt."""
    histories = _histories(store, a, b)
    compared = compare(*histories, partial(_value, store))
    roots = [_root(history.events) for history in histories]
    changes, texts = (None, ()) if None in roots else _state(store, roots[0], roots[1])
    diff = Diff(*compared, changes, texts)
    return diff._replace(sentences=sentences(diff))


def _histories(store: StorePort, a: tuple[str, str, int], b: tuple[str, str, int]) -> tuple[History, History]:
    """Both histories; events that they share are read once."""
    upto = meeting((chain_of(store, a[1]), a[2]), (chain_of(store, b[1]), b[2]))
    journal_a = read_all(store, a[1], upto_seq=a[2])
    journal_b = [event for event in journal_a if event.seq <= upto]
    journal_b += read_all(store, b[1], after_seq=upto, upto_seq=b[2]) if b[2] > upto else []
    events = effective(journal_a), effective(journal_b)
    shared = shared_prefix(*events, upto)
    return History(*a, events[0], shared), History(*b, events[1], shared)


def _value(store: StorePort, body: dict[str, Any]) -> Any:
    return loads(read_blob(store, body["value_blob"])) if "value_blob" in body else body.get("value")


def _root(events: Sequence[Event]) -> Any:
    """The root of the latest state, in a list, since a state may be None; None if no state was saved."""
    latest = fold(events).checkpoint
    return None if latest is None else [part_of(latest.body, "state")]


def _state(
    store: StorePort, a_root: list[Any], b_root: list[Any]
) -> tuple[tuple[Change, ...], tuple[StateChange, ...]]:
    nodes = Nodes(fetcher(store))
    try:
        found = tuple(find_changes(a_root[0], b_root[0], nodes))
        texts = tell_changes(found, a_root[0], b_root[0], nodes)
    except Corrupt as damage:
        raise Corrupt(store=store.url, problem=damage.fields["problem"]) from damage
    return tuple(one.change for one in found), texts
