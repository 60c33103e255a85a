"""``holdfast.store(url)``: a store as a program or a surface sees it, without holding any run.

Whoever is not the holder of a run does not write to its journal: ``resolve`` leaves a letter in its inbox.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.api.store.change_runs import Moving
from holdfast.api.store.new_store import open_or_make
from holdfast.api.store.place import session_at
from holdfast.api.store.read_runs import Reading
from holdfast.api.store.settle import How, Settling
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import StoreSession
from holdfast.errors import HoldfastError
from holdfast.limits import LEASE_S
from holdfast.stores.port import StorePort
from holdfast.stores.url import (
    find_open,
    is_own_file,
    is_there,
    lease_s_of,
    open_remains,
    open_store,
    without_password,
)

if TYPE_CHECKING:
    from holdfast.model.salvage import Salvaged

__all__ = [
    "How",
    "Store",
    "check_export",
    "find_store",
    "origin_at",
    "salvage",
    "session_at",
    "store",
    "store_at",
    "target_at",
]


class Store(Settling, Moving):
    """A store: list its runs, read their journals, settle what is in doubt."""


def store(url: "str | os.PathLike[str] | None" = None) -> Store:
    """The store at this URL or path; without one, ``HOLDFAST_URL``, the nearest ``.holdfast`` upwards, or a new one here."""
    return Store(open_or_make(url), lease_s=lease_s_of(url) or LEASE_S)


def find_store(url: "str | os.PathLike[str] | None" = None) -> Store | None:
    """As ``store``, but where there is none the answer is None: looking creates nothing."""
    return store(url) if is_there(url) else None


def salvage(
    damaged: "str | os.PathLike[str] | None",
    into: "str | os.PathLike[str]",
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> "Salvaged":
    """Bring whatever is intact out of a damaged store in a file into a new one; what is lost is named."""
    from holdfast.engine.damage.salvage import salvage as bring

    remains = open_remains(damaged)
    fresh = store(into)
    return bring(remains, fresh._session, progress=progress)  # noqa: SLF001 - one room


def check_export(
    path: "str | os.PathLike[str]",
    named: "str | os.PathLike[str] | Store | None" = None,
    *,
    again: bool = False,
) -> None:
    """Look through an export without a store to import it into, as an import with these would. ExportError."""
    from holdfast.engine.transfer.import_ import check_free
    from holdfast.exports.read import open_parcel

    with open_parcel(path) as reader:
        check_free(reader, (lambda _: None) if again else (lambda url: origin_at(url, named)))


def store_at(place: "str | os.PathLike[str] | Store | None") -> Store:
    """A store handle as it is, or that of the store at a URL or path. Without one: that of the run which this is called in, if any."""
    if isinstance(place, Store):
        return place
    here = here_now() if place is None else None
    if here is not None and here.held.is_ours:
        return Store(here.held.store)
    return store(place)


def origin_at(url: str, named: "str | os.PathLike[str] | Store | None") -> StorePort | None:
    """The store that a moved run came out of, as its export says, where it can be asked; or the one that somebody has named.

    A file must not make anybody connect to somewhere: unnamed, only a store is asked that this process has open already,
    or that is a file of this user's own.
    """
    if named is not None:
        return session_at(named).store
    try:
        found = find_open(url)
        return open_store(url) if found is None and is_own_file(url) else found
    except (HoldfastError, OSError):
        return None


def target_at(place: "str | os.PathLike[str] | Reading", *, dry_run: bool) -> tuple[StoreSession, str]:
    """The store session of a store that runs are to go to, and its URL. It is made where there is none, but not for a dry run."""
    if isinstance(place, Reading):
        return place._session, place.url  # noqa: SLF001 - its own handle
    if not dry_run or is_there(place):
        handle = store(place)
        return handle._session, handle.url  # noqa: SLF001
    empty = store(f"memory://{os.urandom(8).hex()}")  # as empty as the one that is not there
    return empty._session, without_password(os.fspath(place))  # noqa: SLF001
