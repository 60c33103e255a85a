"""``run.messages``, blocking and async: the conversation in the journal, which reads like a list."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from holdfast.api.features import conversation
from holdfast.engine.run.held_run import HeldRun
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import Misuse


class _Conversation(Sequence[Any]):
    """The run's conversation, as far as the program has come. It reads like a list of fresh copies."""

    __slots__ = ("_held",)

    def __init__(self, held: HeldRun) -> None:
        self._held = held

    def __len__(self) -> int:
        return len(conversation.MESSAGES_SEEN.of(self._held))

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return conversation.MESSAGES_SEEN.of(self._held).read(index)

    def __iter__(self) -> Iterator[Any]:
        return iter(conversation.MESSAGES_SEEN.of(self._held).read(slice(None)))


class Messages(_Conversation):
    """``run.messages``: the journal keeps the messages, so a checkpoint does not write them again."""

    __slots__ = ()

    def append(self, message: Any, *, provider: str | None = None, model: str | None = None) -> None:
        """Add one message at the end. Durable when it returns. A replay does not add it twice.

        ``provider`` and ``model`` are those that made it: ``ready`` leaves out its reasoning for any other.
        """
        drive(conversation.add_messages(self._held, BLOCKING, [_signed(message, provider, model)]))

    def extend(self, messages: Iterable[Any]) -> None:
        """Add messages at the end, in one event. Durable when it returns."""
        drive(conversation.add_messages(self._held, BLOCKING, list(messages)))

    def drop(self, count: int) -> None:
        """Drop the oldest messages from the conversation. The journal still has them."""
        drive(conversation.drop_messages(self._held, BLOCKING, count))

    def ready(self, *, provider: str | None = None, model: str | None = None) -> list[Any]:
        """The messages to send now, as plain data. Raises InvalidHistory if no provider would accept them.

        Tool calls that an interruption left without a result get one from the journal first, and that is
        recorded.
        """
        from holdfast.engine.llm import conversation_repair

        return drive(conversation_repair.ready(self._held, BLOCKING, provider, model))

    def mend(self) -> list[str]:
        """Repair the conversation, so that a provider accepts it, and return the changes.

        Durable when it returns.
        """
        from holdfast.engine.llm import conversation_repair

        return drive(conversation_repair.mend_messages(self._held, BLOCKING))


class AsyncMessages(_Conversation):
    """``run.messages``: the journal keeps the messages, so a checkpoint does not write them again."""

    __slots__ = ()

    async def append(self, message: Any, *, provider: str | None = None, model: str | None = None) -> None:
        """Add one message at the end. Durable when it returns. A replay does not add it twice.

        ``provider`` and ``model`` are those that made it: ``ready`` leaves out its reasoning for any other.
        """
        await conversation.add_messages(self._held, AWAITING, [_signed(message, provider, model)])

    async def extend(self, messages: Iterable[Any]) -> None:
        """Add messages at the end, in one event. Durable when it returns."""
        await conversation.add_messages(self._held, AWAITING, list(messages))

    async def drop(self, count: int) -> None:
        """Drop the oldest messages from the conversation. The journal still has them."""
        await conversation.drop_messages(self._held, AWAITING, count)

    async def ready(self, *, provider: str | None = None, model: str | None = None) -> list[Any]:
        """The messages to send now, as plain data. Raises InvalidHistory if no provider would accept them.

        Tool calls that an interruption left without a result get one from the journal first, and that is
        recorded.
        """
        from holdfast.engine.llm import conversation_repair

        return await conversation_repair.ready(self._held, AWAITING, provider, model)

    async def mend(self) -> list[str]:
        """Repair the conversation, so that a provider accepts it, and return the changes.

        Durable when it returns.
        """
        from holdfast.engine.llm import conversation_repair

        return await conversation_repair.mend_messages(self._held, AWAITING)


def _signed(message: Any, provider: str | None, model: str | None) -> Any:
    """The message with its provider and model, if they are given; an SDK's object as its fields."""
    if provider is None and model is None:
        return message
    from holdfast.core.llm.conversation import tag

    dump = getattr(message, "model_dump", None)
    fields = dump(mode="json", exclude_none=True) if callable(dump) else message
    if not isinstance(fields, Mapping):
        raise Misuse(
            problem=f"run.messages.append(…, provider=…) got {type(message).__name__}, which is no message",
            advice="give it a dict with a role, or an SDK's own message",
        )
    return tag(fields, provider or "", model or "")
