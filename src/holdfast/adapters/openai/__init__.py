"""``holdfast.wrap(client)``: an OpenAI client, blocking or async, whose model calls are journaled in the current run.

The seam is the client's own ``request``, which every resource goes through. What the journal keeps is the provider's
answer as JSON; live or replayed, the SDK's own parser makes its types of it, so that structured outputs, raw responses
and streams are what they always are. Tried with 1.x to 3.x; therefore with whatever speaks the same protocol: Ollama,
vLLM, llama.cpp, LM Studio.
"""

from holdfast.adapters.openai.server_probes import readiness
from holdfast.adapters.openai.wrapped_client import replayed, wrap

__all__ = ["readiness", "replayed", "wrap"]
