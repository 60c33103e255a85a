"""``holdfast.wrap(client)``: an OpenAI client, blocking or async, whose model calls are journaled.

It wraps the client's own ``request``, which every resource uses. The journal keeps the provider's answer as
JSON; live or replayed, the SDK's own parser makes its types of it, so that structured outputs, raw responses
and streams are unchanged. Tested with 1.x to 3.x, and so with whatever speaks the same protocol: Ollama,
vLLM, llama.cpp, LM Studio.
"""

from holdfast.adapters.openai.server_probes import readiness
from holdfast.adapters.openai.wrapped_client import replayed, wrap

__all__ = ["readiness", "replayed", "wrap"]
