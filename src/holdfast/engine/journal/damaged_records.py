"""Treats damaged records as absent, and deletes records without reading them.

A store raises ``Corrupt`` for a damaged record. That is right for a caller that needs this record. It is
wrong for caches and letters: a snapshot can be folded again, and one damaged letter must not block a whole
run.
"""

from holdfast.engine.log import log
from holdfast.errors import Corrupt
from holdfast.model.store_rows import Record
from holdfast.stores.port import StorePort


def find_sound(store: StorePort, space: str, key: str) -> Record | None:
    """The record; None if it is absent or damaged. A damaged one is named in the log."""
    try:
        return store.get_record(space, key)
    except Corrupt as damage:
        log().warning("%s; it is not used", damage)
        return None


def discard(store: StorePort, space: str, key: str) -> bool:
    """Delete a record, damaged or not; False if there is none. Durable when it returns."""
    while True:
        try:
            record = store.get_record(space, key)
        except Corrupt:
            # A delete needs the revision, and a damaged record has none that can be trusted. A put with
            # revision 0 replaces a damaged record; the next round deletes the replacement.
            store.put_record(space, key, b"{}", revision=0)
            continue
        if record is None:
            return False
        if store.delete_record(space, key, revision=record.revision):
            return True
