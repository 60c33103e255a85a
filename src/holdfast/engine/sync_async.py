"""The two runtimes that execute the rules: one blocks, one awaits.

A rule is an ``async def`` that reaches the outside only through a ``Runtime``: call the store, call the
user's function, wait. ``drive`` finishes a rule on the blocking runtime with a single ``send``. That runtime
never suspends, so it works inside a running event loop, too. The alternative, two copies of each rule, would
differ sooner or later.
"""

import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial, wraps
from threading import get_ident
from types import CodeType, CoroutineType, FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast.clock import Clock
from holdfast.engine.run.call_site import CALL_SITE
from holdfast.errors import Misuse

if TYPE_CHECKING:
    from holdfast.engine.journal.inbox_wakeup import InboxWakeup
    from holdfast.model.store_rows import Cursor

T = TypeVar("T")

_LOOK_AT = 64
COROUTINE = 0x80
"""The flag of code made by ``async def``; ``inspect`` says the same at ten times the cost."""


class Runtime(Protocol):
    """The outside as a rule sees it."""

    waits: bool
    """Whether other tasks run while this runtime waits."""

    async def store(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call the store. A call that has begun is awaited to its end, even if the task is cancelled."""
        ...

    async def whole(self, rule: Coroutine[Any, Any, T]) -> T:
        """Finish a rule that must not be left in the middle; a cancellation is raised after it."""
        ...

    async def invoke(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], timeout_s: float | None
    ) -> Any:
        """Call the user's function. OutOfTime after ``timeout_s``; ``Straggler`` if it cannot be stopped."""
        ...

    async def sleep(self, clock: Clock, seconds: float) -> None:
        """Wait this long."""
        ...

    async def listen(self, wakeup: "InboxWakeup", run: str, seen: "Cursor", timeout_s: float) -> None:
        """Wait until something arrives in the run's inbox; at most ``timeout_s``."""
        ...


class OutOfTime(TimeoutError):
    """The call's own ``timeout_s`` has passed.

    A class of its own, since the user's code may raise TimeoutError.
    """


class Straggler(BaseException):
    """The caller stopped waiting (``reason``), but the function still runs in its thread.

    ``on_finish(callback)``: when the function ends, the callback gets a function that returns or raises its
    result.
    """

    def __init__(
        self, reason: BaseException, on_finish: Callable[[Callable[[Callable[[], Any]], None]], None]
    ) -> None:
        super().__init__()
        self.reason = reason
        self.on_finish = on_finish


def drive(rule: Coroutine[Any, Any, T]) -> T:
    """Finish a rule that runs on the blocking runtime."""
    try:
        rule.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # StopIteration is untyped
    rule.close()
    raise AssertionError("a rule on the blocking runtime suspended")


class BlockingRuntime:
    """Does everything in the calling thread."""

    waits = False

    async def store(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return fn(*args, **kwargs)

    async def whole(self, rule: Coroutine[Any, Any, T]) -> T:
        return await rule

    async def invoke(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], timeout_s: float | None
    ) -> Any:
        if timeout_s is not None:
            return _invoke_in_thread(fn, args, kwargs, timeout_s)
        return call_here(fn, args, kwargs)

    async def sleep(self, clock: Clock, seconds: float) -> None:
        clock.sleep(seconds)

    async def listen(self, wakeup: "InboxWakeup", run: str, seen: "Cursor", timeout_s: float) -> None:
        wakeup.wait(run, seen, timeout_s)


def call_here(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the user's function in this thread, which waits for it: how the blocking runtime invokes."""
    value = fn(*args, **kwargs)
    if type(value) is CoroutineType:
        value.close()
        name = getattr(fn, "__name__", fn)
        raise Misuse(
            problem=f"{name!s} is async, and this run is entered with a plain `with`",
            advice="enter the run with `async with holdfast.run(...)` and await run.step(...)",
        )
    return value


def load_threads() -> None:
    """Import what a call with a timeout needs.

    Before its intent: an import that fails then has done nothing.
    """
    from concurrent.futures import Future  # noqa: F401 - see above


def _invoke_in_thread(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], timeout_s: float
) -> Any:
    from concurrent.futures import Future
    from threading import Thread

    future: Future[Any] = Future()
    context = copy_context()

    def work() -> None:
        try:
            future.set_result(context.run(_in_thread, fn, args, kwargs))
        except BaseException as error:  # noqa: BLE001 - carried to the waiting thread
            future.set_exception(error)

    Thread(target=work, name=f"holdfast-call-{getattr(fn, '__name__', 'step')}", daemon=True).start()
    try:
        return future.result(timeout_s)
    except TimeoutError:
        if future.done():  # it ended just now, or it raised a TimeoutError itself: that is its result
            return future.result()
        raise Straggler(
            OutOfTime(), lambda done: future.add_done_callback(lambda f: done(f.result))
        ) from None


def _in_thread(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    here = CALL_SITE.get()
    if here is not None:  # the step's body moved to this thread: its calls are not those of a new task
        here.task_calls.task = get_ident()
    return fn(*args, **kwargs)


class AsyncRuntime:
    """Awaits; plain functions and store calls run in threads, so that they do not block the loop."""

    waits = True

    async def store(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        from holdfast.engine.store_threads import submit, to_its_end  # only async runs need asyncio

        return await to_its_end(submit(fn, *args, **kwargs))

    async def whole(self, rule: Coroutine[Any, Any, T]) -> T:
        from holdfast.engine.store_threads import whole

        return await whole(rule)

    async def invoke(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], timeout_s: float | None
    ) -> Any:
        if timeout_s is None and is_async(fn):
            return await fn(*args, **kwargs)
        import asyncio

        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                if is_async(fn):
                    return await fn(*args, **kwargs)
                context = copy_context()
                work: asyncio.Future[Any] = asyncio.get_running_loop().run_in_executor(
                    None, lambda: context.run(_in_thread, fn, args, kwargs)
                )
                try:
                    value = await asyncio.shield(work)  # a thread cannot be cancelled
                except asyncio.CancelledError as cancelled:
                    # Also if the function has just returned: its result must not be lost.
                    raise Straggler(
                        cancelled, lambda done: work.add_done_callback(lambda f: done(f.result))
                    ) from None
                return await value if isinstance(value, Awaitable) else value
        except Straggler as straggler:
            if limit.expired():
                straggler.reason = OutOfTime()
            raise
        except TimeoutError:
            if limit.expired():
                raise OutOfTime from None
            raise

    async def sleep(self, clock: Clock, seconds: float) -> None:  # noqa: ARG002 - the loop has its own clock
        import asyncio

        await asyncio.sleep(seconds)

    async def listen(self, wakeup: "InboxWakeup", run: str, seen: "Cursor", timeout_s: float) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        heard = asyncio.Event()

        def ring() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(heard.set)

        with wakeup.listening(run, seen, ring), suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await heard.wait()


class UnawaitedCalls:
    """The calls that a program made of an async run's methods, until they have begun.

    Python only warns of a coroutine that was never awaited, and does so behind the block: the run would be
    recorded as finished.
    """

    __slots__ = ("_enough", "_made")

    def __init__(self) -> None:
        self._made: list[tuple[CoroutineType[Any, Any, Any], CodeType, int]] = []
        self._enough = _LOOK_AT

    def note(self, made: "CoroutineType[Any, Any, Any]", caller: FrameType) -> None:
        """A method was called there."""
        # Not the frame: it keeps the caller's variables alive.
        noted = made, caller.f_code, caller.f_lasti
        if self._made and (self._made[-1][0].cr_frame is None or not _is_unbegun(self._made[-1][0])):
            # Most programs await each call at once: then one is kept, and no list grows for the collector.
            self._made[-1] = noted
            return
        self._made.append(noted)
        if len(self._made) >= self._enough:
            self._made = [each for each in self._made if _is_unbegun(each[0])]
            self._enough = max(_LOOK_AT, 2 * len(self._made))

    def left(self) -> list[str]:
        """The calls that have not begun, each with its file and line."""
        return [
            f"{made.__qualname__}(…) at {code.co_filename}:{_line_of(code, at)}"
            for made, code, at in self._made
            if _is_unbegun(made)
        ]

    def forget(self) -> None:
        """Close those that have not begun, so that Python does not warn of them, too."""
        for made, _, _ in self._made:
            if _is_unbegun(made):
                made.close()
        self._made.clear()


def _is_unbegun(made: "CoroutineType[Any, Any, Any]") -> bool:
    return not made.cr_running and not made.cr_suspended and made.cr_frame is not None


def _line_of(code: CodeType, at: int) -> int:
    return next((line or 0 for first, behind, line in code.co_lines() if first <= at < behind), 0)


def noting_calls(cls: type[T]) -> type[T]:
    """The class of an async run's handle, with methods that note the coroutines they make."""
    from asyncio import coroutines

    def noting(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            made = method(self, *args, **kwargs)
            if self._held.unawaited is not None:
                self._held.unawaited.note(made, sys._getframe(1))  # noqa: SLF001 - the line of the call
            return made

        # What tells a coroutine function from others: a framework may look. Newer Pythons have no such mark.
        if (mark := getattr(coroutines, "_is_coroutine", None)) is not None:
            call._is_coroutine = mark  # type: ignore[attr-defined]  # noqa: SLF001
        return call

    methods = {name: noting(fn) for name, fn in vars(cls).items() if is_async(fn) and name[0] != "_"}
    made: Any = type(cls.__name__, (cls,), {"__slots__": (), "__module__": cls.__module__, **methods})
    return made  # type: ignore[no-any-return]  # a subclass of the one that was given


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling the function gives a coroutine."""
    code = getattr(fn, "__code__", None)
    if code is not None:
        return bool(code.co_flags & COROUTINE)
    if isinstance(fn, partial):
        return is_async(fn.func)
    return bool(getattr(getattr(type(fn).__call__, "__code__", None), "co_flags", 0) & COROUTINE)


def is_cancellation(error: BaseException) -> bool:
    """Whether this is asyncio's cancellation. If asyncio was never imported, no task was cancelled."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


@contextmanager
def suppress_cancellation() -> Iterator[None]:
    """Drop a cancellation in the block. Only for a caller that then raises something more important."""
    try:
        yield
    except BaseException as error:
        if not is_cancellation(error):
            raise


BLOCKING = BlockingRuntime()
AWAITING = AsyncRuntime()
