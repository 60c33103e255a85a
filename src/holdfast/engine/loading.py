"""Bringing a run's view into memory: a cached snapshot if there is one, then the events after it, in pages."""

from holdfast.core.fold import View, fold
from holdfast.engine.journal import read_all
from holdfast.stores.port import StorePort


def load(store: StorePort, run: str, *, upto_seq: int | None = None) -> View:
    """The run's view up to an event, or up to its head."""
    return fold(read_all(store, run, upto_seq=upto_seq))
