"""Finds the blobs that events need: for copies, and for prune, which deletes the others.

An event refers to a blob by a field whose name ends in ``_blob``, and to several by ``blobs``. A checkpoint
also refers to the packs of its state, and a model call to those of its request. Invariant: every kind of
reference is known here; the next prune deletes what this module does not find.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from holdfast.core.state.assemble import packs_of
from holdfast.core.state.nodes import Fetch
from holdfast.engine.state.state_store import fetcher
from holdfast.model.event_fields import blobs_in, is_model, parts_of
from holdfast.model.events import Event, Kind
from holdfast.stores.port import StorePort

_PACKS_KEPT: Final = 64
_ROOTS: Final = {Kind.CHECKPOINT: "state", Kind.COMPACTED: "state", Kind.STEP_STARTED: "request"}
"""The kinds of events that have the root of a tree, and the name of that part."""


def references(store: StorePort, *events: Event) -> set[str]:
    """The addresses of all blobs that these events need. Corrupt if the packs of a state cannot be read.

    Ask for all events at once: what their states have in common is then read only once.
    """
    return references_with(fetcher(store), events)


def references_with(fetch: Fetch, events: Iterable[Event]) -> set[str]:
    """The same for packs that are not in a store."""
    found: set[str] = set()
    roots: list[Any] = []
    for event in events:
        found |= blobs_in(event.body)
        part = _ROOTS.get(event.kind)
        if event.kind == Kind.STEP_STARTED and not is_model(event.body):
            continue
        if part is not None and part in (parts := _parts_of(event)):
            roots.append(parts[part])

    return found | packs_of(roots, _kept(fetch))


def _kept(fetch: Fetch) -> Fetch:
    """The same, with the packs that were asked for last in memory."""
    kept: dict[str, Sequence[bytes]] = {}

    def fetched(addresses: Sequence[str]) -> dict[str, Sequence[bytes]]:
        missing = [address for address in addresses if address not in kept]
        found = {
            **(fetch(missing) if missing else {}),
            **{one: kept.pop(one) for one in [*kept] if one in addresses},
        }
        kept.update(found)
        for address in [*kept][:-_PACKS_KEPT]:
            del kept[address]
        return found

    return fetched


def refers(event: Event) -> bool:
    """Whether the event may need a blob. Most do not, and then their bodies are not parsed."""
    if event.kind == Kind.STEP_STARTED:
        return is_model(event.body) or bool(blobs_in(event.body))
    return event.kind in _ROOTS or bool(blobs_in(event.body))


def _parts_of(event: Event) -> dict[str, Any]:
    """The parts of an event's body; empty if the body is not in that form."""
    try:
        return parts_of(event.body)
    except ValueError:
        return {}
