"""Reads, continues and replays the provider's streams: chat completions, and the responses API."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from orjson import dumps

from holdfast.adapters.wire.shapes.shape import Chunk, WireSource
from holdfast.core.llm.streams import (
    Partial,
    chat_completion_of,
    chunks_of_completion,
    delta_of_chat_chunk,
    delta_of_response_event,
    is_whole,
    response_of,
)
from holdfast.core.llm.streams.deltas import agreed, text_of
from holdfast.core.llm.streams.replay_events import (
    events_after,
    events_of_response,
    events_so_far,
    text_event,
    with_text,
)


class ChatSource(WireSource):
    """Chat completions."""

    tail = b"data: [DONE]\n\n"
    conversation = "messages"
    delta_of = staticmethod(delta_of_chat_chunk)
    answer_of = staticmethod(chat_completion_of)

    @property
    def can_continue(self) -> bool:
        """Only text can be continued."""
        wanted = self.body.get("response_format")
        return not isinstance(wanted, dict) or wanted.get("type", "text") == "text"

    def body_for(self, messages: Sequence[Any] | None, had: int) -> Chunk:
        """The body, which asks for the usage: without it the usage would be unknown."""
        body = super().body_for(messages, had)
        is_prefill = messages is not None and messages[-1].get("role") == "assistant"
        if self._is_mistral:  # which reports the usage, and refuses fields that it does not know
            if messages is not None and is_prefill:
                body["messages"] = [*messages[:-1], {**messages[-1], "prefix": True}]
            return body
        if "stream_options" not in body:
            body = {**body, "stream_options": {"include_usage": True}}
        if is_prefill and self.flavour == "vllm":
            return {**body, "continue_final_message": True, "add_generation_prompt": False}
        return body

    def chunks_of(self, value: Chunk) -> Iterable[Chunk]:
        """The answer in few chunks."""
        chunks = chunks_of_completion(value, usage=self._wants_usage and not self._is_mistral)
        if self._is_mistral and chunks:
            chunks[-1]["usage"] = value.get("usage")  # with the end: none of its chunks is without a choice
        return chunks

    def recovered(self, partial: Partial) -> Iterable[Chunk]:
        """What has arrived, without an end if it has none."""
        completion = chat_completion_of(partial)
        if is_whole(partial):
            return self.chunks_of(completion) if self._is_mistral else chunks_of_completion(completion)
        return [c for c in chunks_of_completion(completion) if c["choices"][0]["finish_reason"] is None]

    rest = recovered

    def live(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:  # noqa: ARG002 - the same for all sources
        """An unchanged chunk; a usage chunk only if the program asked for it."""
        return [chunk] if chunk.get("choices") or self._wants_usage or "usage" not in chunk else []

    continued = live

    @property
    def _is_mistral(self) -> bool:
        return self.caller == "mistralai"

    @property
    def _wants_usage(self) -> bool:
        return bool((self.body.get("stream_options") or {}).get("include_usage"))


class PromptSource(ChatSource):
    """Completions of a prompt in the form of chat completions."""

    @property
    def can_continue(self) -> bool:
        """There is no message to continue."""
        return False


class ResponsesSource(WireSource):
    """The responses API. A continuation is another response: its events are renamed to those of the first."""

    conversation = "input"

    def __init__(
        self, body: Chunk, send: Callable[..., Any], flavour: Callable[..., Any], caller: str = ""
    ) -> None:
        super().__init__(body, send, flavour, caller)
        self._begun: dict[str, Any] = {}
        self._given = ""
        self._held = Partial()
        self._item_id = ""

    @property
    def can_continue(self) -> bool:
        """Only text can be continued."""
        wanted = (self.body.get("text") or {}).get("format") or {}
        return bool(wanted.get("type", "text") == "text")

    def found(self, flavour: str) -> bool:
        super().found(flavour)
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
        if not self._begun:
            return agreed(response, partial)
        return with_text(response, partial.text, self._begun) if partial.text else response

    def live(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:
        """An unchanged event; before the last one, the text that only it has: a replay gives it, too."""
        self._given += delta.get("text", "")
        said = text_of(chunk.get("response") or {}) if "response" in delta.get("facts", {}) else ""
        missing = said[len(self._given) :] if said.startswith(self._given) else ""
        return [text_event(chunk["response"], missing), chunk] if missing else [chunk]

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

    def continued(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:  # noqa: ARG002 - the same for all sources
        """Of a continuation only the text is sent at once; the rest at its end."""
        return [text_event(self._begun, delta["text"])] if delta.get("text") else []

    def closing(self, value: Chunk) -> Iterable[Chunk]:
        """The events that close the response."""
        return events_after(value)
