"""Where a store is: a handle, a URL or a path, to what this process has of it. Loads no more than entering a run needs."""

import os
from typing import TYPE_CHECKING

from holdfast.api.store.new_store import open_or_make
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import StoreSession, session_of
from holdfast.limits import LEASE_S
from holdfast.stores.url import lease_s_of

if TYPE_CHECKING:
    from holdfast.api.store.store import Store


def session_at(place: "str | os.PathLike[str] | Store | None") -> StoreSession:
    """What this process has of the store of a handle, or at a URL or path. Without one: of the run's that calls, if any."""
    if place is not None and not isinstance(place, (str, os.PathLike)):
        return place._session  # noqa: SLF001 - a handle of our own
    here = here_now() if place is None else None
    if here is not None and here.held.is_ours:
        return session_of(here.held.store)
    return session_of(open_or_make(place), lease_s=lease_s_of(place) or LEASE_S)
