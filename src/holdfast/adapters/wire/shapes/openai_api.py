"""OpenAI's protocol, and that of all who speak it: chat completions, the responses API, embeddings.

Mistral adds two endpoints that answer with chat completions: agents, and the middle of a text.
"""

from typing import Any, Final

from holdfast.adapters.wire.shapes.openai_streams import ChatSource, PromptSource, ResponsesSource
from holdfast.adapters.wire.shapes.shape import Shape

_HOSTED: Final = ("openai.com", "groq.com", "mistral.ai")


class ChatCompletions(Shape):
    """Chat completions: OpenAI, Groq, Mistral, Ollama, vLLM, llama.cpp, LM Studio and others."""

    name = "chat.completions"
    suffix = "/chat/completions"
    conversation = "messages"
    content = "choices"
    source = ChatSource

    def prefills(self, host: str, model: str) -> bool | None:  # noqa: ARG002 - the same for all models
        """Some providers are known; of others the server tells."""
        if host.endswith(_HOSTED):
            return False
        return True if host.endswith("anthropic.com") else None


class AgentCompletions(ChatCompletions):
    """Completions of an agent of Mistral, which has its model."""

    name = "agents.completions"
    suffix = "/agents/completions"


class FillCompletions(Shape):
    """The middle of a text, between its beginning and its end."""

    name = "fim.completions"
    suffix = "/fim/completions"
    content = "choices"
    source = PromptSource


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
