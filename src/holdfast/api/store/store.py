"""``holdfast.store(url)``: the handle of a store, for programs and surfaces that hold no run.

Only the holder writes to a run's journal. Others leave letters in its inbox, as ``resolve`` does.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.api.store.change_runs import Moving
from holdfast.api.store.follow_runs import Following
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
    from holdfast.api.store.hooks import StoreHooks
    from holdfast.engine.hooks.patrol import Patrol
    from holdfast.model.hooks import DeliveryCounts
    from holdfast.model.salvage import Salvaged
    from holdfast.stores.encryption_mark import Key

__all__ = [
    "How",
    "Store",
    "check_export",
    "find_store",
    "hook_patrol",
    "origin_at",
    "salvage",
    "session_at",
    "store",
    "store_at",
    "target_at",
]


class Store(Settling, Moving, Following):
    """A store: list its runs, read their journals, resolve steps in doubt, fork, move and prune runs."""

    @property
    def hooks(self) -> "StoreHooks":
        """Where people are notified about the runs of this store, and what was delivered."""
        from holdfast.api.store.hooks import StoreHooks

        return StoreHooks(self._session)

    def deliver_hooks(self) -> "DeliveryCounts":
        """Deliver what hooks of this store wait for: one pass over its runs.

        Every process may call it, also while others do. It finds runs whose process was killed, and tries
        again what could not be delivered. Raises StoreError if the store cannot be read.
        """
        from holdfast.engine.hooks.deliver import deliver

        return deliver(self._session)

    def rotate_key(self, new: "Key", *, keep_old: bool = False) -> int:
        """Give an encrypted store another master key; returns how many keys of its own it has now.

        One write, durable when it returns. With ``keep_old`` the old master key opens the store as well,
        until the next rotation to the same new key. Runs that begin after it are safe from those who know the
        old key. Raises KeyRefused if the store is not encrypted.
        """
        from holdfast.stores.encryption_mark import rotate

        return rotate(self._port, new, keeps_old=keep_old)


def store(url: "str | os.PathLike[str] | None" = None, *, key: "Key | None" = None) -> Store:
    """The store at this URL or path.

    Without one: ``HOLDFAST_URL``, else the nearest ``.holdfast`` directory upwards, else a new one here.
    ``key`` is the master key of an encrypted store, if it is not in the environment: 32 bytes, their text, a
    function that returns them, or an object with ``wrap`` and ``unwrap``. An empty store is encrypted from
    then on. KeyRefused.
    """
    return Store(open_or_make(url, key), lease_s=lease_s_of(url) or LEASE_S)


def find_store(url: "str | os.PathLike[str] | None" = None, *, may_be_plain: bool = False) -> Store | None:
    """As ``store``, but None if there is no store. It creates nothing.

    ``may_be_plain``: also a store that is not encrypted, although a key is set.
    """
    if not is_there(url):
        return None
    if may_be_plain:
        return Store(open_store(url, may_be_plain=True), lease_s=lease_s_of(url) or LEASE_S)
    return store(url)


def hook_patrol(url: "str | os.PathLike[str] | None" = None) -> "Patrol":
    """Deliver the notices of a store in the background, until the block is left. The store may come later."""
    from holdfast.engine.hooks.patrol import Patrol

    def find() -> StoreSession | None:
        found = find_store(url)
        return None if found is None else found._session  # noqa: SLF001 - one room

    return Patrol(find)


def salvage(
    damaged: "str | os.PathLike[str] | None",
    into: "str | os.PathLike[str]",
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> "Salvaged":
    """Copy what is intact in a damaged SQLite store into a new store. The report names what is lost."""
    from holdfast.engine.damage.salvage import salvage as bring
    from holdfast.stores.encryption_mark import refuse_sealed

    refuse_sealed(open_remains(damaged).records(), os.fspath(damaged or ""))
    remains = open_remains(damaged)
    fresh = store(into)
    return bring(remains, fresh._session, progress=progress)  # noqa: SLF001 - one room


def check_export(
    path: "str | os.PathLike[str]",
    named: "str | os.PathLike[str] | Store | None" = None,
    *,
    again: bool = False,
) -> None:
    """Check an export as ``import_`` would, without a store to import it into. Raises ExportError."""
    from holdfast.engine.transfer.import_ import check_free
    from holdfast.exports.read import open_parcel

    with open_parcel(path) as reader:
        check_free(reader, (lambda _: None) if again else (lambda url: origin_at(url, named)))


def store_at(place: "str | os.PathLike[str] | Store | None") -> Store:
    """The handle itself, or that of the store at a URL or path.

    None is the store of the current run, if there is one; else that of ``store()``.
    """
    if isinstance(place, Store):
        return place
    here = here_now() if place is None else None
    if here is not None and here.held.is_ours:
        return Store(here.held.store)
    return store(place)


def origin_at(url: str, named: "str | os.PathLike[str] | Store | None") -> StorePort | None:
    """The store that a moved run left: the one that the user named, or the one in the export.

    None if it is not reachable. An export must not make this process connect to a server of its author. So a
    store from the export is used only if this process has it open already, or if it is a file of this user.
    """
    if named is not None:
        return session_at(named).store
    try:
        found = find_open(url)
        return open_store(url) if found is None and is_own_file(url) else found
    except (HoldfastError, OSError):
        return None


def target_at(place: "str | os.PathLike[str] | Reading", *, dry_run: bool) -> tuple[StoreSession, str]:
    """The session and the URL of the store that runs are copied to. It is created, except for a dry run."""
    if isinstance(place, Reading):
        return place._session, place.url  # noqa: SLF001 - its own handle
    if not dry_run or is_there(place):
        handle = store(place)
        return handle._session, handle.url  # noqa: SLF001
    empty = store(f"memory://{os.urandom(8).hex()}")  # as empty as the store that does not exist yet
    return empty._session, without_password(os.fspath(place))  # noqa: SLF001
