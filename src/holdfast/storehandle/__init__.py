"""``holdfast.store(url)``: a store as a program or a surface sees it, without holding any run.

Whoever is not the holder of a run does not write to its journal: ``resolve`` leaves a letter in its inbox.
"""

import os

from holdfast.engine.workshop import Workshop
from holdfast.limits import LEASE_S
from holdfast.storehandle.moving import Moving
from holdfast.storehandle.reading import Reading
from holdfast.storehandle.settling import How, Settling
from holdfast.stores.url import is_there, lease_s_of, open_store, without_password

__all__ = ["How", "Store", "check_export", "find_store", "store", "store_at", "target_at", "workshop_at"]


class Store(Settling, Moving):
    """A store: list its runs, read their journals, settle what is in doubt."""


def store(url: "str | os.PathLike[str] | None" = None) -> Store:
    """The store at this URL or path; without one, ``HOLDFAST_URL``, the nearest ``.holdfast`` upwards, or a new one here."""
    return Store(open_store(url), lease_s=lease_s_of(url) or LEASE_S)


def find_store(url: "str | os.PathLike[str] | None" = None) -> Store | None:
    """As ``store``, but where there is none the answer is None: looking creates nothing."""
    return store(url) if is_there(url) else None


def check_export(path: "str | os.PathLike[str]") -> None:
    """Look through an export without a store to import it into. NotAnExport, NewerExport, DamagedExport."""
    from holdfast.engine.unpacking import verified
    from holdfast.parcels.reading import open_parcel

    with open_parcel(path) as parcel:
        verified(parcel)


def workshop_at(place: "str | os.PathLike[str] | Store | None") -> Workshop:
    """The workshop of a store handle, or of the store at a URL or path."""
    return store_at(place)._workshop  # noqa: SLF001 - its own handle


def store_at(place: "str | os.PathLike[str] | Store | None") -> Store:
    """A store handle as it is, or that of the store at a URL or path."""
    return place if isinstance(place, Store) else store(place)


def target_at(place: "str | os.PathLike[str] | Reading", *, dry_run: bool) -> tuple[Workshop, str]:
    """The workshop of a store that runs are to go to, and its URL. It is made where there is none, but not for a dry run."""
    if isinstance(place, Reading):
        return place._workshop, place.url  # noqa: SLF001 - its own handle
    if not dry_run or is_there(place):
        handle = store(place)
        return handle._workshop, handle.url  # noqa: SLF001
    empty = store(f"memory://{os.urandom(8).hex()}")  # as empty as the one that is not there
    return empty._workshop, without_password(os.fspath(place))  # noqa: SLF001
