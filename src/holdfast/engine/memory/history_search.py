"""Searches the history of runs for events that contain the words of a query, or mean the same.

Every hit is read from its journal before it is returned. So an out-of-date index never shows what was pruned
or erased. A fork's shared history belongs to its origin, and is found there.
"""

from collections.abc import Iterable

from holdfast.core.memory.bm25 import excerpt
from holdfast.core.memory.terms import holds, query_of
from holdfast.engine.journal.blob_content import BoundedReader, with_views
from holdfast.engine.lineage.places import run_with
from holdfast.engine.memory import history_index
from holdfast.engine.memory.fact_search import Ranked, Scanned, find
from holdfast.engine.memory.index_cache import with_index
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import Corrupt, Misuse
from holdfast.model.events import Event
from holdfast.model.facts import Hit
from holdfast.model.search import EVENTS, Within, run_prefix
from holdfast.model.store_rows import RunRow
from holdfast.stores.port import IndexPort, StorePort


def search(session: StoreSession, query: str, rows: Iterable[RunRow], *, k: int, are_all: bool) -> list[Hit]:
    """The ``k`` best events for the query; among equals the newest. ``are_all``: ``rows`` are all runs."""
    asked = query_of(query)
    if not asked.terms and not asked.phrases:
        raise Misuse(problem=f"there is no word to look for in {query!r}", advice="name at least one word")
    if k < 1:
        raise Misuse(problem=f"k={k}: that is no number of hits", advice="ask for one or more")
    runs = [*rows]
    within = Within() if are_all else Within(tuple(run_prefix(row.run) for row in runs))

    def look(index: IndexPort | None) -> list[Ranked]:
        if index is not None:
            history_index.catch_up(session, index, runs, are_all=are_all)
        places = index or Scanned(history_index.scanned(session, runs), session.embedder)
        return find(places, EVENTS, query, within, embedder=session.embedder, now=session.clock.wall())

    reader, hits = BoundedReader(session.store), list[Hit]()
    for one in with_index(session, look) if runs else ():
        run, seq = history_index.place_in(one.key)
        event = _event(session.store, run, seq)
        if event is None or history_index.version_of(event) != one.version:
            continue
        text = history_index.text_of(event, reader)
        if holds(asked, text):
            shown = excerpt(asked, text)
            at = run_with(session.store, run, seq)
            hits.append(Hit(at, seq, event.kind, event.name, event.at, shown, round(one.score, 4)))
        if len(hits) == k:
            break
    return hits


def _event(store: StorePort, run: str, seq: int) -> Event | None:
    found = store.read_events(run, after_seq=seq - 1, upto_seq=seq, limit=1)
    try:
        return next(iter(with_views(store, run, found)), None)
    except Corrupt:  # `doctor` reports it
        return None
