"""Ollama's own protocol: chats and completions, which are streamed as lines of JSON, and embeddings."""

from typing import Any

from holdfast.adapters.wire.shapes.ollama_streams import ChatSource, CompletionSource
from holdfast.adapters.wire.shapes.shape import Chunk, Shape, WireSource
from holdfast.core.llm.conversation.dialects import Ollama


class Chat(Shape):
    """A conversation. It is streamed unless the request says otherwise."""

    name = "chat"
    suffix = "/api/chat"
    conversation = "messages"
    dialect = Ollama()
    content = "message"
    source: type[WireSource] | None = ChatSource

    def is_stream(self, path: str, body: dict[str, Any]) -> bool:  # noqa: ARG002 - the same for all paths
        """Whether the answer is a stream."""
        return body.get("stream") is not False

    def problem(self, answer: Chunk) -> str:
        """A message that the client would refuse was no answer: kept, every replay would fail at it again."""
        said = answer.get(self.content)
        if self.content != "message" or not said:
            return super().problem(answer)
        return "" if _is_message(said) else "its message has another shape"


def _is_message(said: Any) -> bool:
    if not isinstance(said, dict) or not isinstance(said.get("role"), str):
        return False
    calls = said.get("tool_calls") or ()
    functions = [call.get("function") if isinstance(call, dict) else None for call in calls]
    return isinstance(said.get("content", ""), str | None) and all(
        isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), dict)
        for function in functions
    )


class Generate(Chat):
    """A completion. Its answer may be an empty text: then the request only loaded the model."""

    name = "generate"
    suffix = "/api/generate"
    conversation = ""
    content = "done"
    source = CompletionSource


class Embed(Shape):
    """Vectors of texts."""

    name = "embed"
    suffix = "/api/embed"
    content = "embeddings"


class Embeddings(Shape):
    """The vector of one text, as earlier versions had it."""

    name = "embeddings"
    suffix = "/api/embeddings"
    content = "embedding"

    def problem(self, answer: Chunk) -> str:
        """Others have OpenAI's protocol at this path."""
        return "" if answer.get("data") else super().problem(answer)
