"""Pins points: a prune keeps a pinned point, whatever the retention policy says.

A pin is a record. Invariant: after writing it, ``pin`` makes the run's revision grow. So the store refuses a
prune that was planned without the pin, and the pruner plans again. A crash between the two leaves a pin that
a prune already under way may not have seen; ``pin`` has not returned then, so nothing was promised.
"""

from orjson import dumps

from holdfast.core.lineage.reachable_points import is_kept
from holdfast.engine.journal.damaged_records import discard
from holdfast.engine.journal.journal import chain_of, read_all
from holdfast.engine.lineage.dependents import PINS, place_of
from holdfast.errors import StoreUnavailable
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.prune_report import Pin
from holdfast.stores.port import StorePort

_TRIES = 20


def pin(store: StorePort, run: str, seq: int, place: str, at: float) -> Pin | None:
    """Pin an event of this run's history; None if it is gone. Durable when it returns."""
    owner = next(row.run for row in chain_of(store, run) if seq > row.origin_seq)
    key = f"{owner}@#{seq}"
    store.put_record(PINS, key, dumps({"place": place, "at": at}), revision=0)
    # The pin first, then the revision: a prune that was planned without the pin has the old revision.
    for _ in range(_TRIES):
        row = store.find_run(owner)
        if row is None or not is_kept(read_all(store, owner), seq):
            break
        if store.swap_run(owner, revision=row.revision, status=row.status, body=row.body):
            return Pin(owner, seq, place)
    else:
        raise StoreUnavailable(store=store.url, problem=f"run {owner} changes faster than it can be pinned")
    unpin(store, owner, seq)
    return None


def unpin(store: StorePort, run: str, seq: int) -> bool:
    """Remove the pin of a point; False if it was not pinned."""
    return any(discard(store, PINS, f"{row.run}@#{seq}") for row in chain_of(store, run))


def all_pins(store: StorePort) -> list[Pin]:
    """Every pin of the store."""
    found: list[Pin] = []
    after = ""
    while page := store.scan_records(PINS, after=after, limit=RECORD_PAGE_MAX, damaged=True):
        for record in page:
            run, _, seq = record.key.rpartition("@#")
            if seq.isdecimal():  # the key of a damaged record may be anything
                found.append(Pin(run, int(seq), place_of(record)))
        after = page[-1].key
    return found
