"""``run.messages``, blocking and awaited: the conversation that the journal keeps, read like a list."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from holdfast.engine import marks
from holdfast.engine.hands import AWAITING, BLOCKING, drive
from holdfast.engine.tenure import Tenure


class _Conversation(Sequence[Any]):
    """The run's conversation, as far as the program has come: read like a list; each look gives fresh copies."""

    __slots__ = ("_tenure",)

    def __init__(self, tenure: Tenure) -> None:
        self._tenure = tenure

    def __len__(self) -> int:
        return len(self._tenure.conversation)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._tenure.conversation.read(index)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tenure.conversation.read(slice(None)))


class Messages(_Conversation):
    """``run.messages``: kept by the journal, so that a checkpoint does not write them again."""

    __slots__ = ()

    def append(self, message: Any) -> None:
        """Add one message at the end. Durable when it returns; on replay it is not added twice."""
        drive(marks.add_messages(self._tenure, BLOCKING, [message]))

    def extend(self, messages: Iterable[Any]) -> None:
        """Add messages at the end, in one record."""
        drive(marks.add_messages(self._tenure, BLOCKING, list(messages)))

    def drop(self, count: int) -> None:
        """Let the oldest messages go from the conversation; the journal still has them."""
        drive(marks.drop_messages(self._tenure, BLOCKING, count))


class AsyncMessages(_Conversation):
    """``run.messages``: kept by the journal, so that a checkpoint does not write them again."""

    __slots__ = ()

    async def append(self, message: Any) -> None:
        """Add one message at the end. Durable when it returns; on replay it is not added twice."""
        await marks.add_messages(self._tenure, AWAITING, [message])

    async def extend(self, messages: Iterable[Any]) -> None:
        """Add messages at the end, in one record."""
        await marks.add_messages(self._tenure, AWAITING, list(messages))

    async def drop(self, count: int) -> None:
        """Let the oldest messages go from the conversation; the journal still has them."""
        await marks.drop_messages(self._tenure, AWAITING, count)
