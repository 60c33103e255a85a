"""Which blobs an event needs: for whoever copies a history whole, or removes what no history needs any more.

An event refers to a blob by a field of its body whose name ends in ``_blob``, to several by ``blobs``, a checkpoint to the
packs of its state and a model call to those of its request. What refers in another way has to be known here, or it is lost with the next prune.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from holdfast.core.state.assemble import packs_of
from holdfast.core.state.nodes import Fetch
from holdfast.engine.state.state_store import fetcher
from holdfast.model.event_fields import blobs_in, is_model, parts_of
from holdfast.model.events import Event, Kind
from holdfast.stores.port import StorePort

_PACKS_KEPT: Final = 64
_ROOTS: Final = {Kind.CHECKPOINT: "state", Kind.COMPACTED: "state", Kind.STEP_STARTED: "request"}
"""The kinds of events that hold the root of a tree, and under which name."""


def references(store: StorePort, *events: Event) -> set[str]:
    """The addresses of all blobs that these events need. Corrupt where a state's packs cannot be read.

    All events at once cost what their states have in common only once.
    """
    return references_with(fetcher(store), events)


def references_with(fetch: Fetch, events: Iterable[Event]) -> set[str]:
    """The same for packs that lie elsewhere than in a store."""
    found: set[str] = set()
    roots: list[Any] = []
    for event in events:
        found |= blobs_in(event.body)
        part = _ROOTS.get(event.kind)
        if event.kind == Kind.STEP_STARTED and not is_model(event.body):
            continue
        if part is not None and part in (parts := _parts_of(event)):
            roots.append(parts[part])

    @lru_cache(_PACKS_KEPT)
    def kept(address: str) -> Sequence[bytes]:
        return fetch((address,))[address]

    return found | packs_of(roots, lambda addresses: {address: kept(address) for address in addresses})


def refers(event: Event) -> bool:
    """Whether the event may need a blob; most do not, and need not be parsed."""
    if event.kind == Kind.STEP_STARTED:
        return is_model(event.body) or bool(blobs_in(event.body))
    return event.kind in _ROOTS or bool(blobs_in(event.body))


def _parts_of(event: Event) -> dict[str, Any]:
    """The parts of an event's body; none where it is something else."""
    try:
        return parts_of(event.body)
    except ValueError:
        return {}
