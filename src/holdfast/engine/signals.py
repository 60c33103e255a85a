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


def install_in_loop(task: Any) -> Any:
    """Inside an event loop: SIGTERM cancels the task that entered the run. The undo function, or None."""
    import asyncio

    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        return None
    loop = asyncio.get_running_loop()
    told: list[bool] = []

    def on_term() -> None:
        told.append(True)
        task.cancel("SIGTERM")

    try:
        loop.add_signal_handler(signal.SIGTERM, on_term)
    except (NotImplementedError, RuntimeError):  # a loop or platform without signal handlers
        return None

    def undo() -> bool:
        loop.remove_signal_handler(signal.SIGTERM)
        return bool(told)

    return undo
