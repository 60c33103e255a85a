"""Records who asked for an act that leaves no event: a prune, an export, a handoff, a pin taken back.

Only the holder of a run appends to its journal, and these acts need no lease or must not end a run that is
live. So each is a record beside the journal. They belong to this store: no export takes them along.

Crash window: an act is recorded when it is done and durable. A kill in between leaves it without a name.
"""

import os
from collections.abc import Iterator
from typing import Final

from orjson import dumps, loads

from holdfast.codec.secrets import mask_known
from holdfast.limits import ACT_TEXT_CHARS_MAX, ACTS_KEPT, RECORD_PAGE_MAX
from holdfast.model.act_record import ActRecord
from holdfast.model.store_rows import ACTS, Record
from holdfast.stores.port import StorePort

_DIGITS: Final = 16


def note_act(store: StorePort, run: str, act: str, *, by: str, at: float, about: str = "") -> None:
    """Record an act; the oldest goes if there are too many. Durable on return."""
    # In the order of time, by their keys; two of the same microsecond differ in their ends.
    key = f"{run}@{int(at * 1e6):0{_DIGITS}d}-{os.urandom(4).hex()}"
    texts = {"by": mask_known(by)[:ACT_TEXT_CHARS_MAX], "about": mask_known(about)[:ACT_TEXT_CHARS_MAX]}
    store.put_record(ACTS, key, dumps({"act": act, "at": at, **texts}), revision=0)
    kept = list(_records(store, run))
    for record in kept[: max(0, len(kept) - ACTS_KEPT)]:
        store.delete_record(ACTS, record.key, revision=record.revision)


def acts_of(store: StorePort, run: str) -> list[ActRecord]:
    """The recorded acts on a run, oldest first. A damaged record is left out."""
    found = []
    for record in _records(store, run):
        content = loads(record.body)
        found.append(ActRecord(run, content["act"], content["by"], content["at"], content["about"]))
    return found


def _records(store: StorePort, run: str) -> Iterator[Record]:
    after = ""
    while page := store.scan_records(ACTS, prefix=f"{run}@", after=after, limit=RECORD_PAGE_MAX):
        yield from page
        after = page[-1].key
