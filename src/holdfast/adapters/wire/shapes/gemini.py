"""Gemini's protocol, of the Developer API and of Vertex AI: answers, streams of answers, embeddings.

The model is in the path.
"""

from typing import Any

from holdfast.adapters.wire.shapes.gemini_streams import ContentSource
from holdfast.adapters.wire.shapes.shape import Chunk, Shape
from holdfast.core.llm.conversation.dialects import Gemini


class GenerateContent(Shape):
    """An answer."""

    name = "generateContent"
    suffix = ":generateContent"
    conversation = "contents"
    dialect = Gemini()
    content = "candidates"

    def recorded(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The request, with the model of its path."""
        return {"model": _split(path)[1], **body}

    def sent(self, path: str, recorded: dict[str, Any], model: str) -> tuple[str, dict[str, Any]]:
        """The path with the model, and the body without it."""
        before, named, verb = _split(path)
        body = {name: value for name, value in recorded.items() if name != "model"}
        return f"{before}/{model or named}:{verb}", body

    def problem(self, answer: Chunk) -> str:
        """Why this answer cannot be used. A prompt that was refused has no candidates.

        Candidates that the client would refuse were no answer: kept, every replay would fail at them again.
        """
        if (answer.get("promptFeedback") or {}).get("blockReason"):
            return ""
        said = answer.get(self.content) if self.content == "candidates" else None
        if isinstance(said, list) and not all(map(_is_candidate, said)):
            return "its candidates have another shape"
        return super().problem(answer)

    def server(self, url: str) -> str:
        """The address before the models."""
        return url.rpartition("/models/")[0]


class StreamGenerateContent(GenerateContent):
    """A streamed answer."""

    name = "streamGenerateContent"
    suffix = ":streamGenerateContent"
    source = ContentSource

    def is_stream(self, path: str, body: dict[str, Any]) -> bool:  # noqa: ARG002 - the path decided it
        """Always."""
        return True


class EmbedContent(GenerateContent):
    """The vector of a content."""

    name = "embedContent"
    suffix = ":embedContent"
    conversation = ""
    content = "embedding"


class BatchEmbedContents(GenerateContent):
    """Vectors of contents."""

    name = "batchEmbedContents"
    suffix = ":batchEmbedContents"
    conversation = ""
    content = "embeddings"


def _is_candidate(said: Any) -> bool:
    content = (said.get("content") or {}) if isinstance(said, dict) else None
    parts = (content.get("parts") or []) if isinstance(content, dict) else None
    return isinstance(parts, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str | None) for part in parts
    )


def _split(path: str) -> tuple[str, str, str]:
    """The path before the model, the model, and what it is to do."""
    before, _, called = path.rpartition("/")
    model, _, verb = called.partition(":")
    return before, model, verb
