"""The threads in which async runs call their store: an event loop is never held by a disk, a lock or a server.

They are the process's own, and few. The loop's default threads are the user's: plain functions run there, as long as they
like, and must not keep what they came to from being written.

Invariant: a call that has begun is waited for to its end, whoever is cancelled meanwhile; the cancellation is raised
behind it. So what a store was asked for has happened, or has failed, before anything else of the task runs.
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
    """Begin the call in one of the threads, in this context: whoever traces store calls finds the span they belong to."""
    return asyncio.wrap_future(_threads().submit(copy_context().run, partial(fn, *args, **kwargs)))


def begin(fn: Callable[..., None], *args: Any) -> None:
    """Begin something that nobody waits for by this call: it tells by itself when it is done."""
    _threads().submit(fn, *args)


def _threads() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 - one for the process
    if _pool is None:
        _pool = ThreadPoolExecutor(STORE_THREADS_MAX, thread_name_prefix="holdfast-store")
    return _pool


async def to_its_end(work: "asyncio.Future[T]") -> T:
    """What the work comes to. Cancelled meanwhile, wait for its end, and raise the cancellation behind it."""
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
            work.exception()  # seen: a loop complains about errors that nobody has looked at
        raise cut
    return work.result()


async def whole(rule: Coroutine[Any, Any, T]) -> T:
    """Finish a rule of which each wait comes to its end; a cancellation is held back until it is done.

    In the task itself, since a loop that is shut down cancels every task there is: a shielded one, too.
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
    """Whether a cancellation is to be raised later, at the end of the rule around."""
    cuts = _cuts.get()
    if cuts is None:
        return False
    cuts.append(cut)
    return True


def _forget_pool() -> None:
    """In a fork: the threads are the parent's."""
    global _pool  # noqa: PLW0603
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
