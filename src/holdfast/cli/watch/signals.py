"""Signals for a supervisor: noted instead of obeyed, and they wake it when its child ends.

The child stays in this process's group, so that it can read from the terminal and Ctrl-Z stops both. The
cost: the terminal sends Ctrl-C to the child itself, and relaying it would deliver it twice. So SIGINT is
relayed only if the terminal cannot have sent it. `kill -INT` on a watch in a terminal's foreground stops the
restarts, not the child.
"""

import os
import select
import signal
from types import FrameType
from typing import Any, Final, Self

_NOTED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalWatch:
    """Inside the block, SIGINT, SIGTERM and SIGHUP are added to ``received``.

    They and SIGCHLD end a ``wait``.
    """

    def __init__(self) -> None:
        self.received: list[signal.Signals] = []
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Start to note signals; main thread only.

        An ignored signal stays ignored, for the child too, as nohup intends.
        """
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for signum in _NOTED:
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._note)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _wake_only)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until one of the signals comes. One that came since the last ``wait`` counts."""
        if select.select([self._reader], [], [], timeout_s)[0]:
            os.read(self._reader, 4096)

    def _note(self, signum: int, _: FrameType | None) -> None:
        self.received.append(signal.Signals(signum))


def reaches_all(signum: signal.Signals) -> bool:
    """Whether the terminal has also sent this signal to the child: Ctrl-C, in the terminal's foreground."""
    if signum != signal.SIGINT:
        return False
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # there is no terminal
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _wake_only(signum: int, frame: FrameType | None) -> None:
    """Does nothing: only a signal with a handler writes to the wakeup pipe."""
