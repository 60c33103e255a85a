"""The index as a cache that may fail: thrown away when it does, and nothing that a person asks for fails because of it.

What finds things is derived from the store. So whatever its verbs raise is kept apart from what the store raises: the index goes,
what was asked is done without it, by looking through, and the next one who needs an index makes it anew.

The invariant: what is written while there is no index to be had is in every later one. Whoever writes without it throws away what
another process may have built meanwhile, because that was filled before this was written.
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
    """The index could not do what it was asked; ``error`` is what it said."""

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error))
        self.error = error


_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""There is none left to load a part of ours with, which the index needs and the store does not."""


class _Watched:
    """An index whose failures cannot be taken for the store's."""

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
    """The index, raising ``IndexLost`` where it fails."""
    return None if index is None else cast("IndexPort", _Watched(index))


def with_index(
    session: StoreSession,
    act: Callable[[IndexPort | None], T],
    *,
    ready: Callable[[IndexPort], None] = lambda _: None,
    writes: bool = False,
) -> T:
    """Do something by the store's index, made ``ready``; or without one, where there is none or it fails.

    Failing in the middle, it is thrown away, and ``act`` is called again, with None: what it did before must do no harm twice.
    ``writes`` says that it keeps what is to be found: then an index that can neither be written nor thrown away is an error.
    """
    store = session.store
    index = watched(store.find_index())
    if index is not None:
        try:
            ready(index)
            done = act(index)
            if writes and not index.is_in_place():
                store.drop_index()  # it was replaced meanwhile, and what was kept may not be in the new one
        except IndexLost as lost:
            _lose(store, lost.error, writes=writes)
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS:
                raise
            log().warning("the search index of %s is done without: %s", store.url, error)
        else:
            return done
    done = act(None)
    if writes:
        store.drop_index()
    return done


def _lose(store: StorePort, error: StoreError, *, writes: bool) -> None:
    is_passing = isinstance(error, (StoreBusy, DiskFull)) and not writes
    if not is_passing and store.drop_index(because=error):
        log().warning(
            "the search index of %s is damaged, thrown away, and made anew with the next search: %s",
            store.url,
            error,
        )
        return
    if writes:
        raise error
    log().warning("the search index of %s cannot be used, and is done without: %s", store.url, error)


def tidy_index(store: StorePort, act: Callable[[IndexPort], None]) -> None:
    """Take something out of the index, if there is one: one that fails goes as a whole."""
    try:
        index = watched(store.find_index(makes=False))
        if index is not None:
            act(index)
    except StoreError as error:
        _lose(store, error, writes=True)
    except IndexLost as lost:
        _lose(store, lost.error, writes=True)
