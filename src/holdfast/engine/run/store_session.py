"""One process's session with one store: the port, group commit, heartbeat, inbox wakeup, clock.

All runs of this process on one store share its session, so that they share commits and beats. Invariant:
there is one session per open store; a process made by os.fork starts with none.
"""

import os
from functools import lru_cache
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.clock import Clock, SystemClock
from holdfast.engine.journal.group_commit import Committer
from holdfast.engine.journal.heartbeat import Heartbeat
from holdfast.engine.journal.inbox_wakeup import InboxWakeup
from holdfast.engine.journal.spare_descriptor import keep_spare
from holdfast.limits import LEASE_S
from holdfast.model.markers import KNOWN, SHAPES
from holdfast.stores.port import StorePort

if TYPE_CHECKING:
    from holdfast.embedding.embedders import Embedder


PartT = TypeVar("PartT")

_KNOWN_S: Final = 5.0
"""How long the owner of a store's files is not asked for again."""


class StoreSession:
    """A store, and what this process runs on it."""

    def __init__(self, store: StorePort, clock: Clock, lease_s: float) -> None:
        know_secrets()
        self.store = store
        self.clock = clock
        self.lease_s = lease_s
        self.committer = Committer(store)
        self.heartbeat = Heartbeat(store, clock)
        self.wakeup = InboxWakeup(store)
        self.framework_runs: set[str] = set()
        """The runs that are held for a framework while its steps execute; no program has entered them."""
        self._parts: dict[type, Any] = {}
        self._parts_lock = Lock()
        self._embedder: Embedder | None = None
        self._has_embedder = False
        self._whose: tuple[str | None, float] = (None, -inf)

    def whose(self) -> str | None:
        """The store's ``owned_by``, for what is only said: the answer may be some seconds old."""
        found, until = self._whose
        now = self.clock.monotonic()
        if now >= until:
            found = self.store.owned_by
            self._whose = found, now + _KNOWN_S
        return found

    def part(self, cls: type[PartT]) -> PartT:
        """The one object of this class that a feature keeps for this store; made on first use."""
        with self._parts_lock:
            found = self._parts.get(cls)
            if found is None:
                found = self._parts[cls] = cls()
        assert isinstance(found, cls)
        return found

    @property
    def embedder(self) -> "Embedder | None":
        """Makes vectors of texts; None if facts are found by words alone."""
        if not self._has_embedder:
            from holdfast.embedding.embedders import find_embedder

            self.embedder = find_embedder()
        return self._embedder

    @embedder.setter
    def embedder(self, embedder: "Embedder | None") -> None:
        self._embedder, self._has_embedder = embedder, True


_CREDENTIALS = (
    "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "_PASS", "_PWD", "_PAT",
    "_AUTH", "_BASE", "HOLDFAST_SECRETS",
)  # fmt: skip
"""How the names of variables end that may have a secret; ``codec/secrets.py`` looks closer."""


_PLACES = ("URL", "URI", "DSN", "CONNECTION_STRING")
"""How those end that have an address, with a password or without."""


@lru_cache(maxsize=1_000)  # asked of every variable with each run that is entered
def _names_secret(name: str) -> bool | None:
    """Whether a variable of this name may have a secret; None if its content says so."""
    upper = name.upper()
    if upper.endswith(_PLACES):
        return None
    stem = f"_{upper}".rstrip("0123456789_")
    return name != "PWD" and (stem.endswith(_CREDENTIALS) or stem.removesuffix("S").endswith(_CREDENTIALS))


def _may_have_secret(name: str) -> bool:
    found = _names_secret(name)
    if found is None:
        value = os.environ.get(name, "")
        return "@" in value or "=" in value
    return found


def know_secrets() -> None:
    """Look for secrets in the environment. Where no name looks like one, nothing is loaded for it."""
    if KNOWN or any(map(_may_have_secret, os.environ)):
        keep_spare()  # no run is entered yet, and this imports
        from holdfast.codec.secrets import know_environment

        know_environment()


def masked(text: str) -> str:
    """The text with masks in place of known secrets."""
    if not KNOWN:
        return text
    from holdfast.codec.secrets import mask_known

    return mask_known(text)


def masked_text(text: Any) -> Any:
    """A text for people and models as it is recorded: without secrets, and without unknown keys."""
    if not KNOWN and not SHAPES:
        return text
    from holdfast.codec.secrets import masked_text as masked_in

    return masked_in(text)


_lock = Lock()
_sessions: dict[int, StoreSession] = {}
"""By the id of the store object; ``session_of`` compares the object too, since ids are reused."""


def session_of(store: StorePort, *, clock: Clock | None = None, lease_s: float = LEASE_S) -> StoreSession:
    """The session of this store; made with the first caller's clock and lease time."""
    with _lock:
        found = _find(store)
        if found is None:
            found = _sessions[id(store)] = StoreSession(store, clock or SystemClock(), lease_s)
        return found


def find_session(store: StorePort) -> StoreSession | None:
    """The session of this store, if there is one."""
    with _lock:
        return _find(store)


def _find(store: StorePort) -> StoreSession | None:
    found = _sessions.get(id(store))
    return found if found is not None and found.store is store else None


def forget(store: StorePort) -> None:
    """Drop the session of a closed store."""
    with _lock:
        _sessions.pop(id(store), None)


def held_runs() -> list[str]:
    """The runs that this process has entered, in any store."""
    with _lock:
        return [
            run
            for session in _sessions.values()
            for run in session.heartbeat.runs
            if run not in session.framework_runs
        ]


def store_of(run: str) -> StorePort | None:
    """The store in which this process holds the run; None if it does not hold it."""
    with _lock:
        return next((each.store for each in _sessions.values() if run in each.heartbeat.runs), None)


def _forget_all() -> None:
    """In a process made by os.fork: the sessions, with their threads, belong to the parent."""
    global _lock  # noqa: PLW0603 - a thread of the parent may have held it at the moment of the fork
    _lock = Lock()
    _sessions.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
