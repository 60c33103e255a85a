"""Records that are not what was written: read as if they were not there, and taken away without being read.

A store refuses them with ``Corrupt``, which is right for whoever was told to read one. Who only looks for one is better off
without it: a snapshot is folded again, a letter is left again, a fact is remembered again.
"""

from holdfast.engine.log import log
from holdfast.errors import Corrupt
from holdfast.model.store_rows import Record
from holdfast.stores.port import StorePort


def find_sound(store: StorePort, space: str, key: str) -> Record | None:
    """The record, or None where there is none that can be read; a damaged one is named in the log."""
    try:
        return store.get_record(space, key)
    except Corrupt as damage:
        log().warning("%s; it is not used", damage)
        return None


def discard(store: StorePort, space: str, key: str) -> bool:
    """Take a record away, whatever it holds; False where there is none. Durable when it returns."""
    while True:
        try:
            record = store.get_record(space, key)
        except Corrupt:
            store.put_record(space, key, b"{}", revision=0)  # which takes the place of what is damaged
            continue
        if record is None:
            return False
        if store.delete_record(space, key, revision=record.revision):
            return True
