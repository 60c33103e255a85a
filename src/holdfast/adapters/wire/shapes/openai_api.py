"""OpenAI's protocol, and that of all who speak it: chat completions, the responses API, embeddings."""

from typing import Any

from holdfast.adapters.wire.shapes.openai_streams import ChatSource, ResponsesSource
from holdfast.adapters.wire.shapes.shape import Shape


class ChatCompletions(Shape):
    """Chat completions: OpenAI, Groq, Mistral, Ollama, vLLM, llama.cpp, LM Studio and others."""

    name = "chat.completions"
    suffix = "/chat/completions"
    conversation = "messages"
    content = "choices"
    source = ChatSource

    def prefills(self, host: str, model: str) -> bool | None:  # noqa: ARG002 - the same for all models
        """OpenAI's models do not; of others the server tells."""
        return False if host.endswith("openai.com") else True if host.endswith("anthropic.com") else None


class Responses(Shape):
    """The responses API. It cannot continue an answer from its middle."""

    name = "responses"
    suffix = "/responses"
    conversation = "input"
    content = "output"
    source = ResponsesSource

    def continues(self, body: dict[str, Any]) -> bool:
        """Whether the provider keeps the conversation."""
        return body.get("previous_response_id") is not None or body.get("conversation") is not None


class Embeddings(Shape):
    """Vectors of texts."""

    name = "embeddings"
    suffix = "/embeddings"
    content = "data"
