"""Writes intents that wait for their outcomes, once a call takes long.

The intent of a plain ``read`` waits in ``Journal`` for the run's next append, which is mostly that of its
outcome: one commit instead of two. A function that runs longer must still show in ``holdfast show``. So one
thread of the process looks at the waiting intents again and again, and writes those that it sees a second
time. It compares objects and reads no clock. It rests while no journal has had one for a while.

Crash window: an intent that was not written is a call that never began. Only a ``read`` may be lost so, which
is made again in any case. A thread gets no turn while a C function keeps the interpreter for itself: that
call is not seen before it ends.
"""

import os
import threading
from typing import TYPE_CHECKING, Final

from holdfast import limits
from holdfast.clock import SystemClock
from holdfast.engine.sync_async import BLOCKING, drive
from holdfast.errors import StopSignal

if TYPE_CHECKING:
    from holdfast.engine.journal.drafts import Draft
    from holdfast.engine.journal.journal import Journal

_IDLE_LOOKS: Final = 200


class _Watch:
    """The journals that are looked at, and the thread that does it."""

    def __init__(self) -> None:
        self._seen: dict[Journal, tuple[Draft | None, int]] = {}
        """Of each: its first waiting intent at the last look, and the number of looks that found none."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, journal: "Journal") -> None:
        with self._lock:
            self._seen[journal] = (None, 0)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdfast-intents", daemon=True)
                self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            SystemClock.sleep(limits.INTENT_WAITS_S)
            with self._lock:
                looked = list(self._seen.items())
            for journal, (before, idle) in looked:
                self._look(journal, before, idle)

    def _look(self, journal: "Journal", before: "Draft | None", idle: int) -> None:
        first = journal.first_deferred
        is_over = first is None and idle >= _IDLE_LOOKS
        if first is not None and first is before:
            try:
                drive(journal.write_deferred(BLOCKING))
            except (Exception, StopSignal):  # noqa: BLE001 - the outcome's append meets the same, and raises it
                is_over = True
        if not is_over:
            with self._lock:
                self._seen[journal] = (first, idle + 1 if first is None else 0)
            return
        with self._lock:
            del self._seen[journal]
            if not self._seen:
                self._wake.clear()
        journal.is_watched = False
        if first is None and journal.first_deferred is not None:
            watch(journal)  # deferred since, by a thread that saw the journal watched


_watch = _Watch()


def watch(journal: "Journal") -> None:
    """From now on, see to the deferred intents of this journal; until it has had none for a while."""
    journal.is_watched = True
    _watch.begin(journal)


def _begin_again_after_fork() -> None:
    global _watch  # noqa: PLW0603 - its thread does not exist here, and its lock may be held for ever
    _watch = _Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again_after_fork)
