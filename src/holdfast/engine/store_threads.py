"""The threads in which async runs call their store, so that no disk, lock or server blocks an event loop.

The process has a small pool of its own for this. The default executor of the loop is the user's: plain
functions run there for as long as they like, and must not delay the writing of outcomes.

Invariant: a store call that has begun is awaited to its end, even if the task is cancelled; the cancellation
is raised after it. So a store call has succeeded or failed before any other code of the task runs.
"""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from holdfast.limits import STORE_THREADS_MAX

T = TypeVar("T")


class StoreThreads:
    """Threads that start as they are needed and stay.

    A ``ThreadPoolExecutor`` makes a future of each job, with a lock and a condition, and a task that waits
    for a commit pays for it; it has a future of its own.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]] | None] = SimpleQueue()
        self._idle: list[None] = []
        """One for each thread that waits, or is about to: a new job takes one, or starts a thread."""
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()

    def begin(self, fn: Callable[..., object], *args: Any) -> None:
        """Start the call in one of the threads."""
        self._jobs.put((fn, args))
        try:
            self._idle.pop()  # one operation, as all others on it: it needs no lock
        except IndexError:
            self._start_one()

    def shutdown(self) -> None:
        """Wait for the calls that have begun; then end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _start_one(self) -> None:
        with self._starting:
            if len(self._threads) < STORE_THREADS_MAX:
                thread = threading.Thread(target=self._work, name="holdfast-store", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with suppress(BaseException):  # who is to learn of it has been told by the call
                job[0](*job[1])
            del job  # it keeps the store alive
            self._idle.append(None)


_pool: StoreThreads | None = None
_cuts: ContextVar[list[asyncio.CancelledError] | None] = ContextVar("holdfast_cuts", default=None)


def submit(fn: Callable[..., T], *args: Any, **kwargs: Any) -> "asyncio.Future[T]":
    """Start the call in a store thread, in this context: a tracer of store calls finds the current span."""
    done = Future[T]()
    begin(_call, done, copy_context(), partial(fn, *args, **kwargs))
    return asyncio.wrap_future(done)


def _call(done: "Future[T]", context: Context, call: Callable[[], T]) -> None:
    if done.set_running_or_notify_cancel():
        try:
            done.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)
        finally:
            del done  # the traceback of an error has this frame


def begin(fn: Callable[..., object], *args: Any) -> None:
    """Start the call in a store thread. There is no future: the callee reports its end itself."""
    _threads().begin(fn, *args)


def _threads() -> StoreThreads:
    global _pool  # noqa: PLW0603 - one for the process
    if _pool is None:
        _pool = StoreThreads()
    return _pool


@atexit.register
def _finish() -> None:
    if _pool is not None:
        _pool.shutdown()


async def to_its_end(work: "asyncio.Future[T]") -> T:
    """The result of the work.

    If the task is cancelled, wait for the end, and raise the cancellation after it.
    """
    cut: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as cancelled:
            cut = cut or cancelled
        except BaseException:  # noqa: BLE001 - raised below, unless a cancellation comes first
            break
    if cut is not None and not is_held_back(cut):
        if not work.cancelled():
            work.exception()  # retrieved, else the loop logs "exception was never retrieved"
        raise cut
    return work.result()


async def whole(rule: Coroutine[Any, Any, T]) -> T:
    """Finish a rule that must not be left in the middle; a cancellation is raised after it.

    It runs in the task itself and not in a shielded one: a loop that shuts down cancels every task, shielded
    or not.
    """
    cuts: list[asyncio.CancelledError] = []
    token = _cuts.set(cuts)
    try:
        done = await rule
    finally:
        _cuts.reset(token)
    if cuts:
        raise cuts[0]
    return done


def is_held_back(cut: asyncio.CancelledError) -> bool:
    """Whether ``whole`` around this call keeps the cancellation and raises it at its end."""
    cuts = _cuts.get()
    if cuts is None:
        return False
    cuts.append(cut)
    return True


def _forget_pool() -> None:
    """In a process made by os.fork: threads exist only in the parent."""
    global _pool  # noqa: PLW0603
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
