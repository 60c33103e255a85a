"""Wakes the threads and tasks that wait for a letter in a run's inbox.

A blocked thread waits in the store itself. All waiting tasks of event loops share one thread, which lives
while any task waits. A new or removed letter wakes a waiter, and so does a lease under another fence; events
that other tasks of the run append do not.

Invariant: a waiter passes the cursor that it saw when it last read the inbox. So a letter that arrives
between that read and the wait wakes it at once. A waiter always reads the inbox again: a wakeup is only a
hint.
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
"""A new listener joins after at most this long, while the thread waits for the others."""
_BREATH_S: Final = 0.02
"""The pause between two looks at a run whose other tasks append all the time."""


_NOWHERE: Final = Cursor(-1, -1)
"""A cursor that differs from every real one, so that the store answers at once."""


class InboxWakeup:
    """Watches the inboxes of one store."""

    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._lock = Lock()
        self._numbers = count()
        self._listeners: dict[int, tuple[str, Cursor, Callable[[], None]]] = {}
        self._thread: Thread | None = None

    def cursor_of(self, run: str, letters: int | None = None) -> Cursor:
        """The run's cursor now; ``letters`` is how many the caller has just read, if it has."""
        if letters is None:
            records = self._store.scan_records(inbox_space(run), limit=RECORD_PAGE_MAX, damaged=True)
            letters = len(records)
        row = self._store.find_run(run)
        return Cursor(0, 0) if row is None else Cursor(row.lease.fence, row.head, letters)

    def wait(self, run: str, seen: Cursor, timeout_s: float) -> None:
        """Block this thread, at most ``timeout_s``, until letters or fence differ from ``seen``."""
        until = SystemClock.monotonic() + timeout_s
        while (left_s := until - SystemClock.monotonic()) > 0:
            if not self._store.wait({run: seen}, timeout_s=left_s):
                return
            now = self.cursor_of(run)
            if _rings(seen, now):
                return
            seen = now
            SystemClock.sleep(min(_BREATH_S, left_s))

    @contextmanager
    def listening(self, run: str, seen: Cursor, ring: Callable[[], None]) -> Iterator[None]:
        """During the block, another thread calls ``ring`` once, for what ``wait`` would return for."""
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
                    self._answer(run, self.cursor_of(run))
            except Exception as error:  # noqa: BLE001 - if this thread died, no waiter would ever be woken
                # Wake every waiter: each reads the inbox itself, and raises the error in its own task.
                if not isinstance(error, HoldfastError):
                    log().warning("the inboxes of %s cannot be watched", self._store.url, exc_info=error)
                self._answer_all()
                moved = frozenset()
            if moved:
                breath.wait(_BREATH_S)

    def _cursors(self) -> dict[str, Cursor]:
        """The cursors to wait for; if there are none, the thread ends."""
        cursors: dict[str, Cursor] = {}
        with self._lock:
            if not self._listeners:
                self._thread = None
            for run, seen, _ in self._listeners.values():
                # Two listeners of one run that saw different cursors: at least one has missed something.
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
