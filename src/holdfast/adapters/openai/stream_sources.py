"""Reads, continues and replays the provider's streams: chat completions, and the responses API."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from orjson import dumps

from holdfast.core.llm.streams import (
    Partial,
    chat_completion_of,
    chunks_of_completion,
    delta_of_chat_chunk,
    delta_of_response_event,
    is_whole,
    response_of,
)
from holdfast.core.llm.streams.replay_events import (
    events_after,
    events_of_response,
    events_so_far,
    text_event,
    with_text,
)
from holdfast.engine.sync_async import is_async

Chunk = dict[str, Any]
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class EventSource:
    """The common part of both streams: the request, how it is sent, and which server gets it."""

    marks_end = True
    tail = b""
    _conversation = ""

    def __init__(self, body: dict[str, Any], send: Callable[..., Any], flavour: Callable[..., Any]) -> None:
        self.body = body
        self._flavour = ""
        self.open = self._opener(send)
        self.can_prefill = self._finder(flavour)

    @property
    def messages(self) -> Sequence[Any]:
        """The conversation of the request."""
        said = self.body.get(self._conversation)
        return said if isinstance(said, list) else [{"role": "user", "content": said}]

    @property
    def can_continue(self) -> bool:
        """Whether an answer of this kind can be continued.

        One in JSON is restarted: some servers restart its grammar in the middle.
        """
        return True

    def _body_for(self, messages: Sequence[Any] | None, had: int) -> dict[str, Any]:
        if messages is None:
            return self.body
        body = {**self.body, self._conversation: list(messages)}
        for name in _LIMITS:  # the text so far counts towards the limit
            if isinstance(body.get(name), int):
                body[name] = max(1, body[name] - had)
        return body

    def _opener(self, send: Callable[..., Any]) -> Callable[..., Any]:
        if not is_async(send):
            return lambda messages, had: send(self._body_for(messages, had))

        async def open_(messages: Sequence[Any] | None, had: int) -> Any:
            return await send(self._body_for(messages, had))

        return open_

    def _finder(self, flavour: Callable[..., Any]) -> Callable[..., Any]:
        if not is_async(flavour):
            return lambda: self._found(flavour())

        async def find() -> bool:
            return self._found(await flavour())

        return find

    def _found(self, flavour: str) -> bool:
        self._flavour = flavour
        return bool(flavour)


class ChatSource(EventSource):
    """Chat completions."""

    tail = b"data: [DONE]\n\n"
    _conversation = "messages"
    delta_of = staticmethod(delta_of_chat_chunk)
    answer_of = staticmethod(chat_completion_of)

    @property
    def can_continue(self) -> bool:
        """Only text can be continued."""
        wanted = self.body.get("response_format")
        return not isinstance(wanted, dict) or wanted.get("type", "text") == "text"

    def _body_for(self, messages: Sequence[Any] | None, had: int) -> dict[str, Any]:
        body = super()._body_for(messages, had)
        if "stream_options" not in body:  # without it the usage would be unknown
            body = {**body, "stream_options": {"include_usage": True}}
        is_prefill = messages is not None and messages[-1].get("role") == "assistant"
        if is_prefill and self._flavour == "vllm":
            return {**body, "continue_final_message": True, "add_generation_prompt": False}
        return body

    @staticmethod
    def encode(chunk: Chunk) -> bytes:
        """A chunk as the bytes of an event."""
        return b"data: " + dumps(chunk) + b"\n\n"

    def chunks_of(self, value: Chunk) -> Iterable[Chunk]:
        """The answer in few chunks."""
        return chunks_of_completion(value, usage=self._wants_usage)

    @staticmethod
    def recovered(partial: Partial) -> Iterable[Chunk]:
        """What has arrived, without an end if it has none."""
        chunks = chunks_of_completion(chat_completion_of(partial))
        return (
            chunks if is_whole(partial) else [c for c in chunks if c["choices"][0]["finish_reason"] is None]
        )

    rest = recovered

    def has_given(self, partial: Partial) -> None:
        """Nothing to remember for chunks."""

    def live(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:  # noqa: ARG002 - the same for all sources
        """An unchanged chunk; a usage chunk only if the program asked for it."""
        return [chunk] if chunk.get("choices") or self._wants_usage or "usage" not in chunk else []

    continued = live

    @property
    def _wants_usage(self) -> bool:
        return bool((self.body.get("stream_options") or {}).get("include_usage"))

    @staticmethod
    def closing(value: Chunk) -> Iterable[Chunk]:  # noqa: ARG004 - the same for all sources
        """Nothing: the end came with the chunks."""
        return []


class ResponsesSource(EventSource):
    """The responses API. A continuation is another response: its events are renamed to those of the first."""

    _conversation = "input"

    def __init__(self, body: dict[str, Any], send: Callable[..., Any], flavour: Callable[..., Any]) -> None:
        super().__init__(body, send, flavour)
        self._begun: dict[str, Any] = {}
        self._held = Partial()
        self._item_id = ""

    @property
    def can_continue(self) -> bool:
        """Only text can be continued."""
        wanted = (self.body.get("text") or {}).get("format") or {}
        return bool(wanted.get("type", "text") == "text")

    def _found(self, flavour: str) -> bool:
        super()._found(flavour)
        return False  # the API cannot prefill an answer

    @staticmethod
    def encode(chunk: Chunk) -> bytes:
        """An event as its bytes."""
        return f"event: {chunk.get('type', '')}\n".encode() + b"data: " + dumps(chunk) + b"\n\n"

    def delta_of(self, chunk: Chunk) -> dict[str, Any]:
        """What an event adds. The message's id is kept: its end must have it too."""
        item = chunk.get("item") or {}
        if not self._item_id and item.get("type") == "message":
            self._item_id = str(item.get("id", ""))
        return delta_of_response_event(chunk)

    def has_given(self, partial: Partial) -> None:
        """The rest is sent as the rest of that response."""
        if not self._begun:
            named = {"type": "message", "id": self._item_id}
            partial.items = [*partial.items, named]
            self._begun = response_of(partial)

    def answer_of(self, partial: Partial) -> Any:
        """The response; with the joined text if it came in several."""
        response = response_of(partial)
        return with_text(response, partial.text, self._begun) if self._begun and partial.text else response

    @staticmethod
    def chunks_of(value: Chunk) -> Iterable[Chunk]:
        """The response in few events."""
        return events_of_response(value)

    def recovered(self, partial: Partial) -> Iterable[Chunk]:
        """Nothing yet: the response that continues it has another id, which the complete answer must have."""
        self._held = partial
        return []

    def rest(self, partial: Partial) -> Iterable[Chunk]:
        """The start of the response with its continuation; or, if that was already sent, more text."""
        if self._begun:
            return [text_event(self._begun, partial.text)] if partial.text else []
        whole = Partial()
        whole.text = self._held.text + partial.text
        whole.facts = {
            name: fact for name, fact in partial.facts.items() if name not in {"finish_reason", "response"}
        }
        self._begun = response_of(whole)
        return events_so_far(self._begun)

    @staticmethod
    def live(chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:  # noqa: ARG004 - the same for all sources
        """Unchanged."""
        return [chunk]

    def continued(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:  # noqa: ARG002 - the same for all sources
        """Of a continuation only the text is sent at once; the rest at its end."""
        return [text_event(self._begun, delta["text"])] if delta.get("text") else []

    def closing(self, value: Chunk) -> Iterable[Chunk]:
        """The events that close the response."""
        return events_after(value)
