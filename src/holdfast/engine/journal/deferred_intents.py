"""Writes intents that wait for their outcomes, once a call takes long.

The intent of a plain ``read`` waits in ``Journal`` for the run's next append, which is mostly that of its
outcome: one commit instead of two. A function that runs longer must still show in ``holdfast show``. So one
thread of the process looks at the waiting intents again and again, and writes those that it sees a second
time. It compares objects and reads no clock. A journal without one is let go at once, and comes back with its
next one. The thread rests while there was none for a while.

Crash window: an intent that was not written is a call that never began. Only a ``read`` may be lost so, which
is made again in any case. A thread gets no turn while a C function keeps the interpreter for itself: that
call is not seen before it ends.
"""

import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.core.journal.call_notes import name_room, packed
from holdfast.engine.sync_async import BLOCKING, drive

if TYPE_CHECKING:
    from holdfast.engine.journal.drafts import Draft
    from holdfast.engine.journal.journal import Journal

_IDLE_LOOKS: Final = 200
"""After how many looks at nothing the thread rests."""


def defer(journal: "Journal", intent: "Draft", *, is_noted: bool) -> bool:
    """Let the run's next append write this intent; False if too much waits already.

    ``is_noted``: the store notes the call meanwhile, so that a crash report names it. Not for a task: no
    store call is made in a loop's thread.
    """
    if not journal.defer(intent):
        return False
    if is_noted and intent.at is not None and (room := name_room(journal.run)):
        content = packed(intent.name, intent.at, room)
        journal.store.note_call(journal.run, content, fence=journal.fence, after_seq=journal.head)
    return True


class _Watch:
    """The journals that are looked at, and the thread that does it."""

    def __init__(self) -> None:
        self._seen: dict[Journal, Draft | None] = {}
        """Of each, the intent that waited at the last look. Only the thread touches it."""
        self._new: deque[Journal] = deque()
        """Those that come in. Without a lock: hundreds of runs come back with each of their steps."""
        self._starting = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, journal: "Journal") -> None:
        self._new.append(journal)
        if self._thread is None:
            self._start()
        if not self._wake.is_set():
            self._wake.set()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-intents", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        idle, new = 0, self._new
        while True:
            self._wake.wait()
            SystemClock.sleep(limits.INTENT_WAITS_S)
            idle = 0 if new or self._seen else idle + 1
            for _ in range(len(new)):
                journal = new.popleft()
                if journal.deferred:
                    self._seen[journal] = None
                else:  # of hundreds of journals, only those are looked at again in which something waits
                    self._let_go(journal)
            if idle > _IDLE_LOOKS:
                self._wake.clear()
                if new:  # in this order: one that came in before the clear found the thread awake
                    self._wake.set()
            for journal, before in list(self._seen.items()):
                first = next(iter(tuple(journal.deferred)), None)
                if first is not None and (first is not before or self._write(journal)):
                    self._seen[journal] = first
                else:
                    del self._seen[journal]
                    self._let_go(journal, failed=first is not None)

    def _write(self, journal: "Journal") -> bool:
        """Write what has waited since the last look; False if that failed."""
        try:
            drive(journal.write_deferred(BLOCKING))
        except BaseException:  # noqa: BLE001 - it serves all runs, and the outcome's append meets the same
            return False
        return True

    def _let_go(self, journal: "Journal", *, failed: bool = False) -> None:
        journal.is_watched = False
        if journal.deferred and not failed:
            watch(journal)  # deferred since, by a thread that saw the journal watched


_watch = _Watch()


def watch(journal: "Journal") -> None:
    """From now on, see to the deferred intents of this journal, until a look finds none."""
    journal.is_watched = True
    _watch.begin(journal)


def _begin_again_after_fork() -> None:
    global _watch  # noqa: PLW0603 - its thread does not exist here, and its lock may be held for ever
    _watch = _Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again_after_fork)
