"""Hearing of letters: whoever waits for a run is woken when one comes into its inbox.

A blocked thread asks the store itself. Tasks of event loops share one thread, however many wait: it lives while any does.
Only letters wake, and a lease that changed hands: the run's own events, which its other tasks write, do not.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Lock, Thread
from typing import Final

from holdfast.clock import SystemClock
from holdfast.engine.log import log
from holdfast.errors import HoldfastError
from holdfast.limits import RECORD_PAGE_MAX
from holdfast.model.store_rows import Cursor, inbox_space
from holdfast.stores.port import StorePort

_SLICE_S: Final = 0.2
"""A listener that comes while the thread waits for others is taken along after at most this long."""
_BREATH_S: Final = 0.02
"""Between two looks at a run whose other tasks write all the time."""


_NOWHERE: Final = Cursor(-1, -1)


class InboxWakeup:
    """The inboxes of one store, listened to."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._lock = Lock()
        self._numbers = count()
        self._listeners: dict[int, tuple[str, Cursor, Callable[[], None]]] = {}
        self._thread: Thread | None = None

    def standing(self, run: str, letters: int | None = None) -> Cursor:
        """Where the run stands now; ``letters`` is how many the caller has seen in its inbox, if it has looked."""
        if letters is None:
            lying = self._store.scan_records(inbox_space(run), limit=RECORD_PAGE_MAX, damaged=True)
            letters = len(lying)
        row = self._store.find_run(run)
        return Cursor(0, 0) if row is None else Cursor(row.lease.fence, row.head, letters)

    def wait(self, run: str, seen: Cursor, timeout_s: float) -> None:
        """Block this thread until a letter has come or gone, or the lease has; at most so long."""
        until = SystemClock.monotonic() + timeout_s
        while (left_s := until - SystemClock.monotonic()) > 0:
            if not self._store.wait({run: seen}, timeout_s=left_s):
                return
            now = self.standing(run)
            if _rings(seen, now):
                return
            seen = now
            SystemClock.sleep(min(_BREATH_S, left_s))

    @contextmanager
    def listening(self, run: str, seen: Cursor, ring: Callable[[], None]) -> Iterator[None]:
        """While the block lasts, ``ring`` is called, once and from another thread, for what ``wait`` would return for."""
        number = next(self._numbers)
        with self._lock:
            self._listeners[number] = run, seen, ring
            if self._thread is None:
                self._thread = Thread(target=self._listen, name="holdfast-doorbell", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.pop(number, None)

    def _listen(self) -> None:
        breath = Event()
        while cursors := self._cursors():
            try:
                moved = self._store.wait(cursors, timeout_s=_SLICE_S)
                for run in moved:
                    self._answer(run, self.standing(run))
            except Exception as error:  # noqa: BLE001 - a dead thread would leave every waiter asleep
                # Each waiter is woken, looks by itself, and meets the error there.
                if not isinstance(error, HoldfastError):
                    log().warning("the inboxes of %s cannot be watched", self._store.url, exc_info=error)
                self._answer_all()
                moved = frozenset()
            if moved:
                breath.wait(_BREATH_S)

    def _cursors(self) -> dict[str, Cursor]:
        """What to wait for; nothing ends the thread. Where two who listen for one run saw different things, one is to be told."""
        cursors: dict[str, Cursor] = {}
        with self._lock:
            if not self._listeners:
                self._thread = None
            for run, seen, _ in self._listeners.values():
                cursors[run] = seen if cursors.setdefault(run, seen) == seen else _NOWHERE
        return cursors

    def _answer(self, run: str, now: Cursor) -> None:
        with self._lock:
            for number, (name, seen, ring) in list(self._listeners.items()):
                if name == run and _rings(seen, now):
                    del self._listeners[number]
                    ring()
                elif name == run:
                    self._listeners[number] = name, now, ring

    def _answer_all(self) -> None:
        with self._lock:
            for _, _, ring in self._listeners.values():
                ring()
            self._listeners.clear()


def _rings(seen: Cursor, now: Cursor) -> bool:
    return (seen.fence, seen.letters) != (now.fence, now.letters)
