"""The threads in which async runs call their store, so that no disk, lock or server blocks an event loop.

The process has a small pool of its own for this. The default executor of the loop is the user's: plain
functions run there for as long as they like, and must not delay the writing of outcomes.

Invariant: a store call that has begun is awaited to its end, even if the task is cancelled; the cancellation
is raised after it. So a store call has succeeded or failed before any other code of the task runs.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from holdfast.limits import STORE_THREADS_MAX

T = TypeVar("T")

_pool: ThreadPoolExecutor | None = None
_cuts: ContextVar[list[asyncio.CancelledError] | None] = ContextVar("holdfast_cuts", default=None)


def submit(fn: Callable[..., T], *args: Any, **kwargs: Any) -> "asyncio.Future[T]":
    """Start the call in a store thread, in this context: a tracer of store calls finds the current span."""
    return asyncio.wrap_future(_threads().submit(copy_context().run, partial(fn, *args, **kwargs)))


def begin(fn: Callable[..., None], *args: Any) -> None:
    """Start the call in a store thread. There is no future: the callee reports its end itself."""
    _threads().submit(fn, *args)


def _threads() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 - one for the process
    if _pool is None:
        _pool = ThreadPoolExecutor(STORE_THREADS_MAX, thread_name_prefix="holdfast-store")
    return _pool


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
