"""Uses the search index as a cache that may fail: a request then deletes it and continues without it.

The index is derived from the store, so its errors are kept apart from the store's. When it fails, it is
deleted, the request scans the records instead, and the next request that needs an index builds a new one.

Invariant: every later index contains what was written while there was none. For that, a writer without an
index deletes the one that another process may have built in the meantime: it was filled before this write.
"""

import errno
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from holdfast.engine.log import log
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import DiskFull, StoreBusy, StoreError
from holdfast.stores.port import IndexPort, StorePort

T = TypeVar("T")


class IndexLost(Exception):
    """The index failed with ``error``."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""No file descriptor is left. The index may have to load a module then; the store does not."""


class _Watched:
    """Wraps an index, so that its errors cannot be mistaken for the store's."""

    def __init__(self, index: IndexPort) -> None:
        self._index = index

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._index, name)

        def tried(*args: Any, **options: Any) -> Any:
            try:
                return verb(*args, **options)
            except StoreError as error:
                raise IndexLost(error) from error

        return tried


def watched(index: IndexPort | None) -> IndexPort | None:
    """The index, which raises ``IndexLost`` where it fails."""
    return None if index is None else cast("IndexPort", _Watched(index))


def with_index(
    session: StoreSession,
    act: Callable[[IndexPort | None], T],
    *,
    ready: Callable[[IndexPort], None] = lambda _: None,
    writes: bool = False,
) -> T:
    """Call ``act`` with the store's index, after ``ready``; or with None, where there is none or it fails.

    An index that fails in the middle is deleted, and ``act`` is called again with None: it must be
    repeatable. ``writes``: ``act`` stores what a search is to find. Then an index that can neither be written
    nor deleted is an error.
    """
    store = session.store
    index = watched(store.find_index())
    if index is not None:
        try:
            ready(index)
            done = act(index)
            if writes and not index.is_in_place():
                store.drop_index()  # another process replaced it, and the new one may lack what was written
        except IndexLost as lost:
            _lose(store, lost.error, writes=writes)
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS:
                raise
            log().warning("the search index of %s is not used: %s", store.url, error)
        else:
            return done
    done = act(None)
    # See the invariant above.
    if writes:
        store.drop_index()
    return done


def _lose(store: StorePort, error: StoreError, *, writes: bool) -> None:
    # A busy index or a full disk does not prove damage; a reader leaves the index alone.
    is_passing = isinstance(error, (StoreBusy, DiskFull)) and not writes
    if not is_passing and store.drop_index(because=error):
        log().warning(
            "the search index of %s was damaged and deleted; the next search builds a new one: %s",
            store.url,
            error,
        )
        return
    if writes:
        raise error
    log().warning("the search index of %s cannot be used; continuing without it: %s", store.url, error)


def tidy_index(store: StorePort, act: Callable[[IndexPort], None]) -> None:
    """Remove something from the index, if there is one. If that fails, the whole index is deleted."""
    try:
        index = watched(store.find_index(makes=False))
        if index is not None:
            act(index)
    except StoreError as error:
        _lose(store, error, writes=True)
    except IndexLost as lost:
        _lose(store, lost.error, writes=True)
