"""From a store handle, URL or path to this process's session of the store.

It imports only what entering a run needs.
"""

import os
from typing import TYPE_CHECKING

from holdfast.api.store.new_store import open_or_make
from holdfast.engine.run.call_site import here_now
from holdfast.engine.run.store_session import StoreSession, find_session, session_of
from holdfast.limits import LEASE_S
from holdfast.stores.url import lease_s_of

if TYPE_CHECKING:
    from holdfast.api.store.store import Store


def session_at(place: "str | os.PathLike[str] | Store | None") -> StoreSession:
    """The session of a handle's store, or of the store at a URL or path.

    None is the store of the current run, if any.
    """
    if place is not None and not isinstance(place, (str, os.PathLike)):
        return place._session  # noqa: SLF001 - a handle of our own
    here = here_now() if place is None else None
    if here is not None and here.held.is_ours:
        return session_of(here.held.store)
    store = open_or_make(place)
    # Only a new session takes the lease time of the URL, which takes a look at each directory of its path.
    return find_session(store) or session_of(store, lease_s=lease_s_of(place) or LEASE_S)
