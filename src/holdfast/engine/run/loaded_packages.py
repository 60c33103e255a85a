"""The packages whose versions an attempt records: Python, and the SDKs and frameworks that this process has loaded."""

import sys
from typing import Final

PACKAGES: Final = {
    "holdfast": "holdfast",
    "openai": "openai",
    "anthropic": "anthropic",
    "litellm": "litellm",
    "ollama": "ollama",
    "pydantic": "pydantic",
    "pydantic_ai": "pydantic-ai-slim",
    "crewai": "crewai",
    "agents": "openai-agents",
    "langchain_core": "langchain-core",
    "transformers": "transformers",
    "vllm": "vllm",
    "llama_cpp": "llama-cpp-python",
    "mcp": "mcp",
}
"""The packages whose version matters to an agent: by the module that tells it, the distribution it comes in."""


def packages_loaded() -> dict[str, str]:
    """The versions of Python and of those packages that this process has loaded, as they say themselves."""
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for module in PACKAGES:
        version = getattr(sys.modules.get(module), "__version__", None)
        if isinstance(version, str):
            found[module] = version
    return found
