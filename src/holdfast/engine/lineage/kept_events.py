"""Finds the run that has an event now: what a rewind has left belongs to the branch that keeps it.

Facts, search hits and lists of effects name an event by its run and number. Numbers are never used twice in a
run's journal, so the name stays unique; only the run that shows the event may be another one.
"""

from holdfast.engine.journal.journal import read_all
from holdfast.model.event_fields import fields_of
from holdfast.model.events import Kind
from holdfast.stores.port import StorePort


def run_with(store: StorePort, run: str, seq: int) -> str:
    """The run whose history has this event of a run: itself, or the branch that a rewind kept.

    The run itself if that branch was erased.
    """
    while (kept := _kept_in(store, run, seq)) and store.find_run(kept) is not None:
        run = kept
    return run


def _kept_in(store: StorePort, run: str, seq: int) -> str:
    """The branch of the first rewind that left the event; empty if none did."""
    if not store.list_forks(run, limit=1):  # it was never rewound: read nothing
        return ""
    for event in read_all(store, run, after_seq=seq):
        if event.kind == Kind.RUN_REWOUND and (left := fields_of(event.body))["to_seq"] < seq:
            return str(left["kept"])
    return ""
