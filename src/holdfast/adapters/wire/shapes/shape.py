"""One kind of model call on the wire: which requests it is, and how its answers and streams are read.

A subclass says only what differs from the usual: a JSON object with a ``model`` and a list of messages, which
is answered by a JSON object, or by server-sent events if the request has ``"stream": true``.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

from orjson import dumps

from holdfast.adapters.wire.stream_decoders import Decoder, ServerSentEvents
from holdfast.core.llm.conversation import tag_reasoning
from holdfast.core.llm.conversation.dialects import Dialect
from holdfast.core.llm.streams import Partial
from holdfast.engine.sync_async import is_async

Chunk = dict[str, Any]
_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class Shape:
    """One endpoint of one protocol."""

    name = ""
    """The name of its steps."""
    suffix = ""
    """The end of its path."""
    conversation = ""
    """The field of a request with the conversation; empty if it has none that can be repaired."""
    dialect: Dialect | None = None
    """How the conversation is written, if not as OpenAI or Anthropic have it."""
    content = ""
    """The list in an answer that must not be empty."""
    source: "type[WireSource] | None" = None
    """How its answers are streamed; None if they are not."""

    def takes(self, path: str) -> bool:
        """Whether a request to this path is of this shape."""
        return path.rstrip("/").endswith(self.suffix)

    def recorded(self, path: str, body: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - some read it
        """The request as it is recorded. What tells two requests apart must be in it, such as the model."""
        return body

    def sent(self, path: str, recorded: dict[str, Any], model: str) -> tuple[str, dict[str, Any]]:
        """The path and the body of a recorded request; for another model, if one is named."""
        return path, {**recorded, "model": model} if model else recorded

    def is_stream(self, path: str, body: dict[str, Any]) -> bool:  # noqa: ARG002 - some read it
        """Whether the answer to this request is a stream."""
        return body.get("stream") is True

    def continues(self, body: dict[str, Any]) -> bool:  # noqa: ARG002 - some read it
        """Whether the provider has the messages before those of the request."""
        return False

    def problem(self, answer: Chunk) -> str:
        """Why this answer cannot be used; empty if it can."""
        return "" if answer.get(self.content) else f"it is empty: no {self.content}"

    def tagged(self, answer: Chunk, provider: str, model: str) -> Chunk:
        """The answer, its reasoning tagged with the provider and model that made it."""
        return tag_reasoning(answer, provider, model)

    def server(self, url: str) -> str:
        """The address of the protocol, from that of a request."""
        return url.partition(self.suffix)[0]

    def prefills(self, host: str, model: str) -> bool | None:  # noqa: ARG002 - some read them
        """Whether the model goes on from the middle of an answer; None if the server has to be asked."""
        return False


class WireSource:
    """The common part of an ``engine.llm.stream.Source`` whose events are JSON objects."""

    marks_end = True
    is_over = False
    conversation: ClassVar = ""
    """The field of the request with the conversation."""
    tail: ClassVar = b""
    """The bytes after the last event."""
    decoder: ClassVar[type[Decoder]] = ServerSentEvents
    content_type: ClassVar = "text/event-stream"

    def __init__(
        self, body: Chunk, send: Callable[..., Any], flavour: Callable[..., Any], caller: str = ""
    ) -> None:
        self.body = body
        self.caller = caller
        """The package of the client that asks."""
        self.flavour = ""
        """The server that continues an answer from its middle; empty if it cannot."""
        self._send, self._find = send, flavour

    @staticmethod
    def is_error(event: Chunk) -> bool:
        """Whether an event reports that the answer has failed."""
        return bool(event.get("error")) and event.get("type") is None

    @staticmethod
    def failure(status: int, words: str) -> Chunk:
        """An event that reports that the answer has failed, where the provider sent none that is JSON."""
        return {"error": {"message": words, "type": "api_error", "code": status}}

    @staticmethod
    def encode(chunk: Chunk) -> bytes:
        """An event as its bytes."""
        return b"data: " + dumps(chunk) + b"\n\n"

    @property
    def messages(self) -> Sequence[Any]:
        """The conversation of the request."""
        said = self.body.get(self.conversation)
        return said if isinstance(said, list) else [{"role": "user", "content": said}]

    @property
    def can_continue(self) -> bool:
        """Whether an answer of this kind can be continued.

        One in JSON is restarted: some servers restart its grammar in the middle.
        """
        return True

    def body_for(self, messages: Sequence[Any] | None, had: int) -> Chunk:
        """The body that is sent: the request, or the one that continues its answer after ``had`` pieces."""
        if messages is None:
            return self.body
        body = {**self.body, self.conversation: list(messages)}
        for name in _LIMITS:  # the text so far counts towards the limit
            if isinstance(body.get(name), int):
                body[name] = max(1, body[name] - had)
        return body

    @property
    def open(self) -> Callable[..., Any]:
        """Sends the request and returns its events."""
        send = self._send
        if not is_async(send):
            return lambda messages, had: send(self.body_for(messages, had))

        async def open_(messages: Sequence[Any] | None, had: int) -> Any:
            return await send(self.body_for(messages, had))

        return open_

    @property
    def can_prefill(self) -> Callable[..., Any]:
        """Whether the server continues an answer from its middle."""
        find = self._find
        if not is_async(find):
            return lambda: self.found(find())

        async def found() -> bool:
            return self.found(await find())

        return found

    def found(self, flavour: str) -> bool:
        """Note which server it is. Returns whether it can continue an answer from its middle."""
        self.flavour = flavour
        return bool(flavour)

    def has_given(self, partial: Partial) -> None:
        """Nothing to remember."""

    def live(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:  # noqa: ARG002 - some read it
        """Unchanged."""
        return [chunk]

    def closing(self, value: Any) -> Iterable[Chunk]:  # noqa: ARG002 - some read it
        """Nothing: the end came with the chunks."""
        return []
