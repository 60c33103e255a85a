"""SIGTERM, while a run is open: the handler only raises; leaving the block records the interruption.

Installed in the main thread only, and only where nobody has installed one: a host application's own handler
stays in charge.
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
    """Turn SIGTERM into ``Terminated``; whether this call is to be undone by ``remove``."""
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
        """Told a second time: whoever sent it does not want to wait any longer."""
        return self.signals > 1

    def undo(self) -> bool:
        """Stop watching. Whether the process is to end now: SIGTERM came, and no other run is being left."""
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
        """Whether that was the last one."""
        self._watches.remove(watch)
        if self._watches:
            return False
        del _loops[self._loop]
        self._loop.remove_signal_handler(signal.SIGTERM)
        return True

    def on_term(self) -> None:
        for watch in self._watches:
            watch.signals += 1
        for task in {watch.task for watch in self._watches}:
            task.cancel("SIGTERM")


_loops: dict[Any, _Loop] = {}


def install_in_loop(task: Any) -> Watch | None:
    """Inside an event loop: SIGTERM cancels the tasks that entered runs; None where somebody else handles it."""
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
