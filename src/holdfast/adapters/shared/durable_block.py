"""Blocks in which a framework's calls are steps, and parallel calls that must wait for each other."""

from collections.abc import Awaitable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.api.async_run import AsyncRun
from holdfast.api.enter import Opening, current
from holdfast.api.run import Run

if TYPE_CHECKING:
    from asyncio import Future

T = TypeVar("T")


class DurableBlock(Generic[T]):
    """A block in which a framework's calls are steps: in a run that it enters, or in the current one.

    Use it with ``with`` (gives ``Run``) or ``async with`` (gives ``AsyncRun``), like ``holdfast.run(...)``.
    """

    def __init__(self, opening: Opening | None, frame: ContextVar[T | None], value: T) -> None:
        self._opening, self._frame, self._value = opening, frame, value
        self._token: Token[T | None] | None = None

    def __enter__(self) -> Run:
        run: Any = current() if self._opening is None else self._opening.__enter__()
        self._token = self._frame.set(self._value)
        return run  # type: ignore[no-any-return]  # the current one may be of the other kind

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._reset()
        return self._opening is not None and self._opening.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncRun:
        run: Any = current() if self._opening is None else await self._opening.__aenter__()
        self._token = self._frame.set(self._value)
        return run  # type: ignore[no-any-return]  # the current one may be of the other kind

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._reset()
        return self._opening is not None and await self._opening.__aexit__(kind, error, trace)

    def _reset(self) -> None:
        assert self._token is not None
        self._frame.reset(self._token)


class ParallelCalls:
    """Parallel calls of a framework, which cancels the others when one of them raises.

    A cancelled effect is in doubt. So a call that raises first lets the others finish.
    """

    __slots__ = ("_aloft",)

    def __init__(self) -> None:
        self._aloft: set[Future[None]] = set()

    async def carry(self, call: Awaitable[T]) -> T:
        """The result of the call."""
        import asyncio

        landed: Future[None] = asyncio.get_running_loop().create_future()
        self._aloft.add(landed)
        try:
            return await call
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._land(landed)
            await asyncio.sleep(0)  # includes a task that was started with it and has not run yet
            while self._aloft:
                await asyncio.wait(self._aloft)
            raise
        finally:
            self._land(landed)

    def _land(self, landed: "Future[None]") -> None:
        self._aloft.discard(landed)
        if not landed.done():
            landed.set_result(None)
