"""``run.open``, blocking and async: context managers over ``engine.artifacts.write``."""

from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, AnyStr, Generic

from holdfast.engine.sync_async import AWAITING, BLOCKING, drive

if TYPE_CHECKING:
    from holdfast.engine.artifacts.write import Writing


class OpenFile(Generic[AnyStr]):
    """What ``run.open`` returns. Use it with ``with``, once."""

    __slots__ = ("_writing",)

    def __init__(self, writing: "Writing") -> None:
        self._writing = writing

    def __enter__(self) -> IO[AnyStr]:
        file: IO[Any] = drive(self._writing.begin(BLOCKING))
        return file

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        drive(self._writing.end(BLOCKING, error))


class AsyncOpenFile(Generic[AnyStr]):
    """What ``run.open`` of an ``AsyncRun`` returns. Use it with ``async with``, once.

    Writes inside the block are blocking, but they only reach memory and the page cache.
    """

    __slots__ = ("_writing",)

    def __init__(self, writing: "Writing") -> None:
        self._writing = writing

    async def __aenter__(self) -> IO[AnyStr]:
        file: IO[Any] = await self._writing.begin(AWAITING)
        return file

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        await self._writing.end(AWAITING, error)
