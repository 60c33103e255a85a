"""Removes a run from the index when its events are removed.

Crash window: killed in between, the index has documents without events. A search leaves them out, and the
next one over all runs deletes them.
"""

from holdfast.engine.memory.index_cache import tidy_index
from holdfast.model.search import EVENTS, run_note, run_prefix
from holdfast.stores.port import IndexPort, StorePort


def forget_run(store: StorePort, run: str) -> None:
    """Drop the documents of a run. The next search indexes what is left of it again."""
    tidy_index(store, lambda index: drop_run(index, run))


def drop_run(index: IndexPort, run: str) -> None:
    """Drop the documents of a run, and the note of how far it was indexed."""
    index.drop_under(EVENTS, run_prefix(run), note=run_note(run))
