"""A store that kills its own process at a chosen call, so that a test can walk through all of them.

It sends a real signal to a real process, by default SIGKILL: no handler runs, no buffer is flushed, and only
the kernel releases locks.
"""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Any, Final, Literal, TypeVar, get_args

from holdfast import limits
from holdfast.api.store.store import Store
from holdfast.limits import LEASE_S
from holdfast.model.named_tuple import NamedTuple
from holdfast.stores.port import StorePort
from holdfast.stores.url import lease_s_of, open_store
from holdfast.testing.relay_store import Relay

T = TypeVar("T")
When = Literal["before", "after"]
WHENS: Final[tuple[When, ...]] = get_args(When)

ENV_AT: Final = "HOLDFAST_CRASH_AT"
ENV_WHEN: Final = "HOLDFAST_CRASH_WHEN"
ENV_SIGNAL: Final = "HOLDFAST_CRASH_SIGNAL"
ENV_VERB: Final = "HOLDFAST_CRASH_VERB"
ENV_MARK: Final = "HOLDFAST_CRASH_MARK"
ENV_TALLY: Final = "HOLDFAST_CRASH_TALLY"

UNCOUNTED: Final = frozenset({"renew", "sync", "note_call", "find_call_note"})
"""The methods of the heartbeat thread, which depend on the clock and not on the program; and notes of calls.

If they counted, the k-th call would be another one in every run. No recovery depends on what they write.
"""


class Kill(NamedTuple):
    """Where to strike: the number of the port call, from 0, and the side of it.

    With ``verb``, only the calls of that verb count: ``Kill(3, verb="append")`` strikes at the fourth append.
    """

    at: int
    when: When = "before"
    signum: int = SIGKILL
    verb: str | None = None

    def environment(self) -> dict[str, str]:
        """The variables that tell a child."""
        told = {ENV_AT: str(self.at), ENV_WHEN: self.when, ENV_SIGNAL: str(int(self.signum))}
        return told if self.verb is None else told | {ENV_VERB: self.verb}

    def __str__(self) -> str:
        return f"{Signals(self.signum).name} {self.when} {self.verb or 'port call'} {self.at}"


class KillingStore(Relay):
    """Passes every call on, and kills this process before or after the ``at``-th.

    Without ``at`` it only counts.
    """

    def __init__(
        self,
        port: StorePort,
        *,
        at: int | None = None,
        when: When = "before",
        signum: int = SIGKILL,
        verb: str | None = None,
        mark: str | None = None,
        tally: str | None = None,
        counter: Iterator[int] | None = None,
    ) -> None:
        """Wrap an open store. Several stores of one process may share a ``counter``.

        ``mark`` is a file that gets the name of the method just before the kill; ``tally`` one that always
        has the number of calls so far.
        """
        super().__init__(port)
        self._at = at
        self._when = when
        self._signum = signum
        self._verb = verb
        self._mark = mark
        self._tally = None if tally is None else os.open(tally, os.O_WRONLY | os.O_CREAT, 0o600)
        self._counter = count() if counter is None else counter  # next() of it is atomic: threads may race

    def pass_on(self, verb: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
        name = verb.__name__
        counts = name not in UNCOUNTED if self._verb is None else name == self._verb
        struck = counts and self._count() == self._at
        if struck and self._when == "before":
            self._strike(name)
        try:
            return verb(*args, **kwargs)
        finally:  # a call that raised is over too
            if struck and self._when == "after":
                self._strike(name)

    def _count(self) -> int:
        number = next(self._counter)
        if self._tally is not None:
            os.pwrite(self._tally, f"{number + 1:>12}".encode(), 0)
        return number

    def _strike(self, verb: str) -> None:
        if self._mark is not None:
            Path(self._mark).write_text(verb, encoding="ascii")
        os.kill(os.getpid(), self._signum)


def killing_port(port: StorePort) -> StorePort:
    """The store, made to kill where the environment says; the store itself if it says nothing.

    All stores of this process count together. A wrapped store stays as it is.
    """
    told = os.environ
    if (ENV_AT not in told and ENV_TALLY not in told) or isinstance(port, KillingStore):
        return port
    when: Any = told.get(ENV_WHEN, "before")
    assert when in WHENS, f"{ENV_WHEN}={when!r}"
    # Each write at a place of its own, the same in every process: no intent waits for its outcome.
    setattr(limits, "DEFERRED_MAX", 0)  # noqa: B010 - a constant, to the checker of types
    return KillingStore(
        port,
        at=int(told[ENV_AT]) if ENV_AT in told else None,
        when=when,
        signum=int(told.get(ENV_SIGNAL, SIGKILL)),
        verb=told.get(ENV_VERB),
        mark=told.get(ENV_MARK),
        tally=told.get(ENV_TALLY),
        counter=_calls,
    )


def killing_store(url: str | os.PathLike[str] | None = None) -> Store:
    """``holdfast.store(url)`` that kills where the environment says, for children started by a test.

    Scripts under ``CrashMatrix`` do not need it: there every store that is opened by URL does.
    """
    return Store(killing_port(open_store(url)), lease_s=lease_s_of(url) or LEASE_S)


_calls: Final = count()
