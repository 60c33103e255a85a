"""Search over history: which events of which runs speak of something, or mean it.

Every hit is looked up in its journal before it is told, so what is pruned or erased is not found, whatever the index says. A
fork's borrowed history belongs to its origin, and is found there.
"""

from collections.abc import Iterable

from holdfast.core.recall import excerpt
from holdfast.core.terms import holds, query_of
from holdfast.engine import indexing
from holdfast.engine.finding import Ranked, Scanned, find
from holdfast.engine.indexes import with_index
from holdfast.engine.recounting import Reader
from holdfast.engine.workshop import Workshop
from holdfast.errors import Misuse
from holdfast.model.events import Event
from holdfast.model.memories import Hit
from holdfast.model.rows import RunRow
from holdfast.model.searching import EVENTS, Within, run_prefix
from holdfast.stores.port import IndexPort, StorePort


def search(workshop: Workshop, query: str, rows: Iterable[RunRow], *, k: int, are_all: bool) -> list[Hit]:
    """The events that fit the query best; of those that fit as well, the newest. ``are_all``: no run is left out."""
    asked = query_of(query)
    if not asked.terms and not asked.phrases:
        raise Misuse(problem=f"there is no word to look for in {query!r}", advice="name at least one word")
    if k < 1:
        raise Misuse(problem=f"k={k}: that is no number of hits", advice="ask for one or more")
    runs = [*rows]
    within = Within() if are_all else Within(tuple(run_prefix(row.run) for row in runs))

    def look(index: IndexPort | None) -> list[Ranked]:
        if index is not None:
            indexing.catch_up(workshop, index, runs, are_all=are_all)
        places = index or Scanned(indexing.scanned(workshop, runs), workshop.embedder)
        return find(places, EVENTS, query, within, embedder=workshop.embedder, now=workshop.clock.wall())

    reader, hits = Reader(workshop.store), list[Hit]()
    for one in with_index(workshop, look) if runs else ():
        run, seq = indexing.place_in(one.key)
        event = _event(workshop.store, run, seq)
        if event is None or indexing.version_of(event) != one.version:
            continue
        text = indexing.text_of(event, reader)
        if holds(asked, text):
            shown = excerpt(asked, text)
            hits.append(Hit(run, seq, event.kind, event.name, event.at, shown, round(one.score, 4)))
        if len(hits) == k:
            break
    return hits


def _event(store: StorePort, run: str, seq: int) -> Event | None:
    return next(iter(store.read_events(run, after_seq=seq - 1, upto_seq=seq, limit=1)), None)
