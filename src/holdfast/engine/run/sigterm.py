"""Handles SIGTERM while a run is open: the handler raises or cancels, and leaving the block records the end.

A ``once`` call in flight may end first, within ``drain_s``: a call that is cut off is in doubt, and every
deploy would need a person. In the main thread the handler returns without raising, and ``Terminated`` is
raised when the outcome is recorded; in an event loop, the tasks of the runs are cancelled then. A second
SIGTERM interrupts at once, and so does the end of ``drain_s``. The call counts as in flight before its intent
is written: an intent without a call would be in doubt, too.

The handler writes nothing itself: a signal may arrive in the middle of an append. It is installed only in the
main thread, and only if SIGTERM has its default action: a handler of the program stays in charge.
"""

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any

from holdfast.clock import SystemClock
from holdfast.errors import Terminated

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun

_POLL_S = 0.01
_LEAVE_S = 1.0
"""How long recording the end of a run may take."""


def _end_by(held: "HeldRun", drain_s: float) -> None:
    """Limit every wait for this run's calls and outcomes to ``drain_s`` from now."""
    if held.journal is not None:
        until = held.clock.monotonic() + drain_s
        held.journal.drain_until = min(held.journal.drain_until, until)


# -- in the main thread --------------------------------------------------------------------------------------


class MainThread:
    """The process's SIGTERM handler, and the ``once`` call that the main thread is making, if any."""

    def __init__(self) -> None:
        self._depth = 0
        self._call: object | None = None
        self._drain_s = 0.0
        self._held: HeldRun | None = None
        self._is_told = False
        """Whether SIGTERM came during the call."""
        self._is_time_up = False
        """Whether the next signal is our own, because the time of the call is up."""

    def install(self) -> bool:
        """Turn SIGTERM into ``Terminated``. Returns whether the caller must call ``remove``."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if self._depth == 0:
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                return False
            signal.signal(signal.SIGTERM, self._on_term)
        self._depth += 1
        return True

    def remove(self) -> None:
        """Undo ``install``; the last one restores the default."""
        self._depth -= 1
        # The program may have installed a handler of its own meanwhile: that one stays.
        if self._depth == 0 and signal.getsignal(signal.SIGTERM) == self._on_term:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    async def begin(self, held: "HeldRun", drain_s: float) -> bool:
        """A ``once`` call begins: hold SIGTERM back until ``end``. False if another thread makes the call."""
        if self._call is not None or threading.current_thread() is not threading.main_thread():
            return False
        self._held, self._drain_s, self._is_told = held, drain_s, False
        self._call = object()
        return True

    async def end(self) -> None:
        """The outcome of the call is recorded. Terminated if SIGTERM came meanwhile."""
        self._call = None  # from here on the handler raises by itself
        if self._is_told:
            self._is_told = False
            raise Terminated

    def _on_term(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a handler
        is_own, self._is_time_up = self._is_time_up, False
        if self._call is None:
            if is_own:  # the call ended just when its time was up
                return
            raise Terminated
        if self._is_told or self._drain_s <= 0:
            raise Terminated
        assert self._held is not None
        self._is_told = True
        _end_by(self._held, self._drain_s)
        # Not a threading.Thread: the signal may have interrupted the start of one, which holds a lock.
        import _thread

        _thread.start_new_thread(self._expire, (self._call, self._drain_s))

    def _expire(self, call: object, drain_s: float) -> None:
        SystemClock.sleep(drain_s)
        if self._call is call:
            self._is_time_up = True
            if hasattr(signal, "pthread_kill"):
                # To the main thread: only its own blocking call is interrupted.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
            else:
                import _thread

                _thread.interrupt_main(signal.SIGTERM)


MAIN = MainThread()


# -- in an event loop ----------------------------------------------------------------------------------------


class Watch:
    """One run's share in the SIGTERM handler of its event loop."""

    def __init__(self, loop: "_Loop", task: Any, drain_s: float) -> None:
        self._loop = loop
        self.task = task
        self.drain_s = drain_s
        self.held: HeldRun | None = None
        self.calls = 0
        """The number of ``once`` calls in flight."""
        self.signals = 0
        """How often SIGTERM came while the run was open."""
        self.is_cancelled = False
        self._is_time_up = False

    @property
    def is_hurried(self) -> bool:
        """Whether SIGTERM came a second time: its sender does not want to wait any longer."""
        return self.signals > 1

    @property
    def is_held_back(self) -> bool:
        """Whether the cancellation waits for ``once`` calls of this run or of a run inside it.

        The task of this run may wait for that of the inner one, and a cancelled task cancels what it waits
        for.
        """
        if self.signals != 1 or self._is_time_up or self.drain_s <= 0:
            return False
        return any(watch.calls for watch in self._loop.watches if watch.is_inside(self))

    def is_inside(self, other: "Watch") -> bool:
        """Whether this watch is the other one, or its run is a child of the other's run."""
        if self is other or self.held is None or other.held is None:
            return self is other
        return self.held.run.startswith(f"{other.held.run}/")

    async def begin(self, held: "HeldRun", drain_s: float) -> bool:  # noqa: ARG002 - as the main thread's
        """A ``once`` call begins. After SIGTERM it waits here for its cancellation, before its intent."""
        import asyncio

        if self.signals:
            while self.is_held_back:  # noqa: ASYNC110 - no event tells that the time is up
                await asyncio.sleep(_POLL_S)
            await asyncio.sleep(0)
        self.calls += 1
        return True

    async def end(self) -> None:
        """The outcome of the call is recorded. CancelledError if SIGTERM came meanwhile."""
        self.calls -= 1
        if self.signals:
            import asyncio

            self._loop.cancel_ready()
            await asyncio.sleep(0)  # the cancellation arrives here, before the program continues

    def on_term(self, loop: Any) -> None:
        """Note a SIGTERM; the first one starts the time of ``drain_s``."""
        self.signals += 1
        if self.signals == 1 and self.held is not None:
            _end_by(self.held, self.drain_s)
            loop.call_later(self.drain_s, self._expire)

    def _expire(self) -> None:
        self._is_time_up = True
        self._loop.cancel_ready()

    async def wait_for_inner_runs(self) -> None:
        """After SIGTERM: let other tasks leave the runs inside this one first.

        ``gather`` gives up at the first cancelled task. The program's own task would then end while another
        task still leaves its run, and asyncio cannot shut down a loop that is ended twice.
        """
        import asyncio

        until = self._loop.time() + self.drain_s + _LEAVE_S if self.signals else 0.0
        while self._loop.time() < until and any(
            watch is not self and watch.task is not self.task and watch.is_inside(self)
            for watch in self._loop.watches
        ):
            try:
                await asyncio.sleep(_POLL_S)
            except asyncio.CancelledError:  # the end of this run is recorded, so nothing is left to cancel
                continue

    def undo(self) -> bool:
        """Stop watching. Returns whether the process should end: SIGTERM came, and no other run is open."""
        return self._loop.remove(self) and self.signals > 0


class _Loop:
    """The runs entered in one event loop: SIGTERM cancels the task of each."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self.watches: list[Watch] = []

    def time(self) -> float:
        return float(self._loop.time())

    def add(self, task: Any, drain_s: float) -> Watch:
        watch = Watch(self, task, drain_s)
        self.watches.append(watch)
        return watch

    def remove(self, watch: Watch) -> bool:
        """Remove a watch. Returns whether it was the last one; then the default action is restored."""
        self.watches.remove(watch)
        if self.watches:
            return False
        del _loops[self._loop]
        self._loop.remove_signal_handler(signal.SIGTERM)
        return True

    def on_term(self) -> None:
        for watch in self.watches:
            watch.on_term(self._loop)
            watch.is_cancelled = False
        self.cancel_ready()

    def cancel_ready(self) -> None:
        """Cancel the tasks that should end and have no ``once`` call to wait for: each once per signal."""
        ready = [watch for watch in self.watches if watch.signals and not watch.is_cancelled]
        busy = {watch.task for watch in ready if watch.is_held_back}
        for task in {watch.task for watch in ready} - busy:
            task.cancel("SIGTERM")
        for watch in ready:
            watch.is_cancelled = watch.task not in busy


_loops: dict[Any, _Loop] = {}


def install_in_loop(task: Any, drain_s: float) -> Watch | None:
    """Inside an event loop: SIGTERM cancels the tasks that entered runs. None if it is handled elsewhere."""
    import asyncio

    loop = asyncio.get_running_loop()
    found = _loops.get(loop)
    if found is not None:
        return found.add(task, drain_s)
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
    return made.add(task, drain_s)
