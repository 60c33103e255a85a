"""A store that fails where a test says: an error before a call, or after it, when the write has been made.

::

    store, faults = faulty_store("memory://test")
    faults.fail("append", at=2, when="after")      # the third append is written, and raises

All I/O of Holdfast crosses the store's port, so this is every way in which a store can let an agent down. An
error after a write is the one that programs get wrong: its outcome is unknown, not "not written".
"""

import os
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from holdfast.api.store.store import Store
from holdfast.clock import Clock
from holdfast.errors import Misuse, StoreUnavailable
from holdfast.limits import LEASE_S
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.port import StorePort
from holdfast.stores.url import lease_s_of, open_store
from holdfast.testing.killing_store import When
from holdfast.testing.relay_store import Relay

T = TypeVar("T")


class _Fault(NamedTuple):
    verb: str
    first: int
    behind: int
    when: When
    error: Callable[[str], Exception] | None


class FaultyStore(Relay):
    """Passes every call on, except those that fail. ``calls`` counts them by the port's method."""

    def __init__(self, port: StorePort) -> None:
        """Wrap an open store."""
        super().__init__(port)
        self.calls: dict[str, int] = {}
        self.raised = 0
        """How many faults have struck."""
        self._faults: list[_Fault] = []
        self._lock = Lock()

    def fail(
        self,
        verb: str,
        *,
        at: int = 0,
        times: int = 1,
        when: When = "before",
        error: Callable[[str], Exception] | None = None,
    ) -> None:
        """Let the ``at``-th call of this method from now on fail, and those behind it: ``times`` in all.

        ``verb`` is a method of ``holdfast.stores.port.StorePort``, such as ``append``. ``error`` makes what
        is raised, given the store's URL; the default is StoreUnavailable.
        """
        if not callable(getattr(StorePort, verb, None)):
            raise Misuse(
                problem=f"a store has no method {verb!r}",
                advice="see holdfast.stores.port.StorePort for those it has",
            )
        with self._lock:
            first = self.calls.get(verb, 0) + at
            self._faults.append(_Fault(verb, first, first + times, when, error))

    def mend(self) -> None:
        """Nothing fails any more."""
        with self._lock:
            self._faults.clear()

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        fault = self._due(verb.__name__)
        if fault is None:
            return verb(*args, **kwargs)
        if fault.when == "after":
            verb(*args, **kwargs)
        raise self._error(fault)

    def _due(self, verb: str) -> _Fault | None:
        with self._lock:
            number = self.calls.get(verb, 0)
            self.calls[verb] = number + 1
            due = [one for one in self._faults if one.verb == verb and one.first <= number < one.behind]
            self.raised += bool(due)
        return due[0] if due else None

    def _error(self, fault: _Fault) -> Exception:
        if fault.error is not None:
            return fault.error(self.url)
        problem = f"a fault of the test, {fault.when} {fault.verb}"
        return StoreUnavailable(store=self.url, problem=problem)


def faulty_store(
    url: str | os.PathLike[str] = "memory://faulty", *, clock: Clock | None = None
) -> tuple[Store, FaultyStore]:
    """A store for ``holdfast.run(…, store=…)``, and its faults. ``clock`` is the time that its runs read."""
    faults = FaultyStore(open_store(url))
    return Store(faults, lease_s=lease_s_of(url) or LEASE_S, clock=clock), faults
