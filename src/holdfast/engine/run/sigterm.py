"""Handles SIGTERM while a run is open: the handler raises or cancels, and leaving the block records the end.

The handler writes nothing itself: a signal may arrive in the middle of an append. It is installed only in the
main thread, and only if SIGTERM has its default action: a handler of the host application stays in charge.
"""

import signal
import threading
from types import FrameType
from typing import Any

from holdfast.errors import Terminated

_depth = 0


def _raise(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of a handler
    raise Terminated


def install() -> bool:
    """Turn SIGTERM into ``Terminated``. Returns whether the caller must call ``remove``."""
    global _depth  # noqa: PLW0603 - one handler per process
    if threading.current_thread() is not threading.main_thread():
        return False
    if _depth == 0:
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return False
        signal.signal(signal.SIGTERM, _raise)
    _depth += 1
    return True


def remove() -> None:
    """Undo ``install``; the last one restores the default."""
    global _depth  # noqa: PLW0603
    _depth -= 1
    if _depth == 0 and signal.getsignal(signal.SIGTERM) is _raise:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Watch:
    """One run's share in the SIGTERM handler of its event loop."""

    def __init__(self, loop: "_Loop", task: Any) -> None:
        self._loop = loop
        self.task = task
        self.signals = 0
        """How often SIGTERM came while the run was open."""

    @property
    def is_hurried(self) -> bool:
        """Whether SIGTERM came a second time: its sender does not want to wait any longer."""
        return self.signals > 1

    def undo(self) -> bool:
        """Stop watching. Returns whether the process should end: SIGTERM came, and no other run is open."""
        return self._loop.remove(self) and self.signals > 0


class _Loop:
    """The runs entered in one event loop: SIGTERM cancels the task of each."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._watches: list[Watch] = []

    def add(self, task: Any) -> Watch:
        watch = Watch(self, task)
        self._watches.append(watch)
        return watch

    def remove(self, watch: Watch) -> bool:
        """Remove a watch. Returns whether it was the last one; then the default action is restored."""
        self._watches.remove(watch)
        if self._watches:
            return False
        del _loops[self._loop]
        self._loop.remove_signal_handler(signal.SIGTERM)
        return True

    def on_term(self) -> None:
        for watch in self._watches:
            watch.signals += 1
        for task in {watch.task for watch in self._watches}:  # once per task: nested runs share one
            task.cancel("SIGTERM")


_loops: dict[Any, _Loop] = {}


def install_in_loop(task: Any) -> Watch | None:
    """Inside an event loop: SIGTERM cancels the tasks that entered runs. None if it is handled elsewhere."""
    import asyncio

    loop = asyncio.get_running_loop()
    found = _loops.get(loop)
    if found is not None:
        return found.add(task)
    if threading.current_thread() is not threading.main_thread():
        return None
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return None
    made = _Loop(loop)
    try:
        loop.add_signal_handler(signal.SIGTERM, made.on_term)
    except (NotImplementedError, RuntimeError):  # a loop or platform without signal handlers
        return None
    _loops[loop] = made
    return made.add(task)
