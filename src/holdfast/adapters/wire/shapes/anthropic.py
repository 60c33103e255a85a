"""Anthropic's protocol: messages, and their streams of events with content blocks."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from orjson import dumps

from holdfast.adapters.wire.shapes.shape import Chunk, Shape, WireSource
from holdfast.core.llm.streams import Partial
from holdfast.core.llm.streams.message_events import (
    ContinuedMessage,
    MessageDeltas,
    blocks_of,
    events_of_blocks,
    events_of_message,
    message_of,
    opening,
)

_SERVER_TOOLS: Final = ("web_search", "web_fetch", "code_execution", "tool_search")
_CONTENT: Final = frozenset({"text", "reasoning", "calls"})


class MessagesSource(WireSource):
    """Messages. A continuation is another message: its events are those of the first one, with more text."""

    conversation = "messages"
    tail = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    answer_of = staticmethod(message_of)

    def __init__(
        self, body: Chunk, send: Callable[..., Any], flavour: Callable[..., Any], caller: str = ""
    ) -> None:
        super().__init__(body, send, flavour, caller)
        self._deltas = MessageDeltas()
        self._held: list[Chunk] = []
        self._has_content = False
        self._begun: ContinuedMessage | None = None

    @property
    def can_continue(self) -> bool:
        """Text only: no JSON, no citations, and nothing that the provider's own tools have found."""
        wanted = self.body.get("output_format") or (self.body.get("output_config") or {}).get("format")
        tools = [str(tool.get("type")) for tool in self.body.get("tools") or () if isinstance(tool, dict)]
        is_served = any(kind.startswith(_SERVER_TOOLS) for kind in tools) or self.body.get("mcp_servers")
        return not (wanted or is_served or any(map(_cites, self.messages)))

    def found(self, flavour: str) -> bool:
        """Not with thinking: then the provider refuses the beginning of an answer."""
        return super().found(flavour) and self._thinking.get("type", "disabled") == "disabled"

    @property
    def _thinking(self) -> dict[str, Any]:
        return self.body.get("thinking") or {}

    def body_for(self, messages: Sequence[Any] | None, had: int) -> Chunk:
        """The body; the limit of an answer must be above that of its thinking."""
        body = super().body_for(messages, had)
        thinking = self._thinking.get("budget_tokens")
        if messages is None or not isinstance(thinking, int) or body.get("max_tokens", 0) > thinking:
            return body
        return {**body, "max_tokens": thinking + 1}

    @staticmethod
    def is_error(event: Chunk) -> bool:
        """Whether an event reports that the answer has failed."""
        return event.get("type") == "error"

    @staticmethod
    def failure(status: int, words: str) -> Chunk:  # noqa: ARG004 - the same for all sources
        """An event that reports that the answer has failed."""
        return {"type": "error", "error": {"type": "api_error", "message": words}}

    @staticmethod
    def encode(chunk: Chunk) -> bytes:
        """An event as its bytes."""
        return f"event: {chunk.get('type', '')}\n".encode() + b"data: " + dumps(chunk) + b"\n\n"

    def delta_of(self, chunk: Chunk) -> dict[str, Any]:
        """What an event adds."""
        self.is_over |= chunk.get("type") == "message_stop"
        return self._deltas.delta_of(chunk)

    @staticmethod
    def chunks_of(value: Chunk) -> Iterable[Chunk]:
        """The message in few events."""
        return events_of_message(value)

    def live(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:
        """Unchanged, once there is content: a try that ends before is begun again, from its first event."""
        if chunk.get("type") == "message_stop":
            return []  # the tail, once the answer is recorded
        self._held = [chunk] if chunk.get("type") == "message_start" else [*self._held, chunk]
        self._has_content |= bool(delta.keys() & _CONTENT or "finish_reason" in delta.get("facts", ()))
        if not self._has_content:
            return []
        held, self._held = self._held, []
        return held

    def has_given(self, partial: Partial) -> None:
        """The rest is sent as the rest of that message."""
        if self._begun is None:
            self._begun = ContinuedMessage(partial, self._deltas.open)
        self._deltas.go_on(partial)

    def recovered(self, partial: Partial) -> Iterable[Chunk]:
        """What has arrived, without an end."""
        partial.facts["first"] = self._deltas.go_on(partial)
        self._begun = ContinuedMessage(partial, {})
        kept, text, _ = blocks_of(partial)
        return [opening(message_of(partial)), *events_of_blocks(kept), *self._begun.more(text)]

    def rest(self, partial: Partial) -> Iterable[Chunk]:
        """Of a continuation the text is sent at once; the rest at its end."""
        assert self._begun is not None
        return self._begun.more(partial.text)

    def continued(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:  # noqa: ARG002 - the same for all sources
        """Of a continuation the text is sent at once; the rest at its end."""
        assert self._begun is not None
        return self._begun.more(delta.get("text", ""))

    def closing(self, value: Chunk) -> Iterable[Chunk]:
        """The end of the message."""
        assert self._begun is not None
        return self._begun.closing(value)


class Messages(Shape):
    """Messages: Anthropic, and those who speak its protocol."""

    name = "messages"
    suffix = "/v1/messages"
    conversation = "messages"
    content = "content"
    source = MessagesSource

    def problem(self, answer: Chunk) -> str:
        """Why this answer cannot be used. An empty list can be: the model had nothing to add."""
        return "" if isinstance(answer.get("content"), list) else "it is empty: no content"

    def prefills(self, host: str, model: str) -> bool | None:  # noqa: ARG002 - the same for all hosts
        """Later models than these refuse the beginning of an answer."""
        return "claude-3" in model


def _cites(message: Any) -> bool:
    """Whether a message has documents that the answer is to cite."""
    parts = message.get("content") if isinstance(message, dict) else None
    asked = [part.get("citations") for part in parts if isinstance(part, dict)] if type(parts) is list else []
    return any(isinstance(one, dict) and one.get("enabled") for one in asked)
