"""A store for one input, gone with it: a memory store's data otherwise live as long as the process."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import holdfast
from holdfast.engine.run.store_session import forget
from holdfast.stores import in_memory_rows, url

_numbers = count()


@contextmanager
def scratch_store() -> Iterator[holdfast.Store]:
    """An empty store in memory."""
    name = f"fuzzed-{next(_numbers)}"
    store = holdfast.store(f"memory://{name}")
    try:
        yield store
    finally:
        port = store._port
        store.close()
        forget(port)
        url._open.pop(("memory", name), None)
        in_memory_rows._tables_by_name.pop(name, None)
