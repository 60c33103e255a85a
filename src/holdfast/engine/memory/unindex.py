"""What was indexed of a run goes with its events. Whatever cuts this off, the next search drops what it finds no event for."""

from holdfast.engine.memory.index_cache import tidy_index
from holdfast.model.search import EVENTS, run_note, run_prefix
from holdfast.stores.port import IndexPort, StorePort


def forget_run(store: StorePort, run: str) -> None:
    """Drop what was indexed of a run. What is still there of it is indexed again when somebody searches."""
    tidy_index(store, lambda index: drop_run(index, run))


def drop_run(index: IndexPort, run: str) -> None:
    """Drop what an index has of a run, and how far it was indexed."""
    index.drop_under(EVENTS, run_prefix(run), note=run_note(run))
