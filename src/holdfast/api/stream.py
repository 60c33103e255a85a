"""Streamed answers as a program reads them, blocking and async: iterators over ``engine.llm.stream``."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from holdfast.api.features import stream
from holdfast.engine.sync_async import drive

if TYPE_CHECKING:
    from holdfast.engine.llm.stream import Streaming

C = TypeVar("C")


class Stream(Generic[C]):
    """A streamed answer.

    Iterate over its pieces, which are recorded as they arrive. ``close`` ends it early.
    """

    __slots__ = ("_streaming",)

    def __init__(self, streaming: "Streaming") -> None:
        self._streaming = streaming

    @property
    def replayed(self) -> bool:
        """Whether the answer comes from the journal."""
        return self._streaming.is_replayed

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> C:
        chunk: Any = drive(self._streaming.next())
        if chunk is stream.END:
            raise StopIteration
        return chunk  # type: ignore[no-any-return]  # the caller knows what its call gives

    def close(self) -> None:
        """End the stream early. What has arrived is recorded as the answer."""
        drive(self._streaming.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()


class AsyncStream(Generic[C]):
    """A streamed answer.

    Iterate over its pieces, which are recorded as they arrive. ``close`` ends it early.
    """

    __slots__ = ("_streaming",)

    def __init__(self, streaming: "Streaming") -> None:
        self._streaming = streaming

    @property
    def replayed(self) -> bool:
        """Whether the answer comes from the journal."""
        return self._streaming.is_replayed

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> C:
        chunk: Any = await self._streaming.next()
        if chunk is stream.END:
            raise StopAsyncIteration
        return chunk  # type: ignore[no-any-return]  # the caller knows what its call gives

    async def close(self) -> None:
        """End the stream early. What has arrived is recorded as the answer."""
        await self._streaming.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
