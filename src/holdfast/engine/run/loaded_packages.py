"""The versions that an attempt records: of Python, and of the SDKs and frameworks in this process."""

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
"""The packages whose version matters to an agent: module name to distribution name."""


def packages_loaded() -> dict[str, str]:
    """The versions of Python and of the loaded packages, from their ``__version__``; nothing is imported."""
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for module in PACKAGES:
        version = getattr(sys.modules.get(module), "__version__", None)
        if isinstance(version, str):
            found[module] = version
    return found
