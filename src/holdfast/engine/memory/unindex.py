"""Removes a run from the index when its events are removed.

Crash window: killed in between, the index has documents without events. A search leaves them out, and the
next one over all runs deletes them.
"""

from collections.abc import Sequence

from holdfast.engine.memory.index_cache import tidy_index
from holdfast.model.search import EVENTS, run_note, run_prefix
from holdfast.stores.port import IndexPort, StorePort


def forget_run(store: StorePort, run: str) -> None:
    """Drop the documents of a run. The next search indexes what is left of it again."""
    forget_runs(store, [run])


def forget_runs(store: StorePort, runs: Sequence[str]) -> None:
    """Drop the documents of these runs."""
    if runs:
        tidy_index(store, lambda index: drop_runs(index, runs))


def drop_runs(index: IndexPort, runs: Sequence[str]) -> None:
    """Drop the documents of these runs, and the notes of how far they were indexed."""
    index.drop_under(EVENTS, *map(run_prefix, runs), notes=[*map(run_note, runs)])
