"""All clients that the common tests run with."""

from typing import Final

from tests.adapters.clients.anthropic_drivers import Anthropic, AsyncAnthropic
from tests.adapters.clients.bedrock_drivers import Bedrock
from tests.adapters.clients.drivers import Driver
from tests.adapters.clients.genai_drivers import AsyncGenAi, GenAi
from tests.adapters.clients.groq_drivers import AsyncGroq, Groq
from tests.adapters.clients.litellm_drivers import AsyncLiteLlm, LiteLlm
from tests.adapters.clients.mistral_drivers import AsyncMistral, Mistral
from tests.adapters.clients.ollama_drivers import AsyncOllama, Ollama

DRIVERS: Final[tuple[Driver, ...]] = (
    Anthropic(),
    AsyncAnthropic(),
    Groq(),
    AsyncGroq(),
    Mistral(),
    AsyncMistral(),
    GenAi(),
    AsyncGenAi(),
    Ollama(),
    AsyncOllama(),
    Bedrock(),
    LiteLlm(),
    AsyncLiteLlm(),
)
