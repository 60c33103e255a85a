"""Thin programs, one module for each framework: the task with its own persistence, and with Holdfast. This is their list.

Each is started as ``python -m MODULE WAY`` in a directory of its own, again and again with the same line, until it ends with 0.
"""

from typing import Final, NamedTuple


class Driver(NamedTuple):
    """One way to do the task."""

    framework: str
    way: str
    persistence: str
    """In words, for the table."""
    environment: str
    packages: tuple[str, ...]
    """Whose versions are told."""

    @property
    def name(self) -> str:
        return f"{self.framework}: {self.persistence}"

    @property
    def module(self) -> str:
        return f"{__name__}.{self.framework.lower().replace(' ', '_')}"

    @property
    def is_held(self) -> bool:
        return self.way.startswith("holdfast")


_PEERS: Final = ".venv-peers"
_LANGGRAPH: Final = ("langgraph", "langgraph-checkpoint-sqlite", "langchain-openai", "openai")
_LLAMAINDEX: Final = ("llama-index-core", "llama-index-llms-openai", "openai")

DRIVERS: Final = (
    Driver("plain loop", "none", "none", ".venv", ("openai",)),
    Driver("plain loop", "holdfast", "Holdfast", ".venv", ("openai",)),
    Driver("plain loop", "holdfast_unverified", "Holdfast, no verify", ".venv", ("openai",)),
    Driver("DBOS", "own", "its steps", _PEERS, ("dbos", "openai")),
    Driver("Burr", "own", "SQLitePersister", _PEERS, ("apache-burr", "openai")),
    Driver("LangGraph", "own", "SqliteSaver", _PEERS, _LANGGRAPH),
    Driver("LangGraph", "holdfast", "Holdfast", _PEERS, _LANGGRAPH),
    Driver("OpenAI Agents SDK", "own", "SQLiteSession", _PEERS, ("openai-agents", "openai")),
    Driver("OpenAI Agents SDK", "holdfast", "Holdfast", _PEERS, ("openai-agents", "openai")),
    Driver("Pydantic AI", "own", "messages", _PEERS, ("pydantic-ai-slim", "openai")),
    Driver("Pydantic AI", "dbos", "DBOSDurability", _PEERS, ("pydantic-ai-slim", "dbos", "openai")),
    Driver("Pydantic AI", "holdfast", "Holdfast", _PEERS, ("pydantic-ai-slim", "openai")),
    Driver("CrewAI", "own", "CheckpointConfig", ".venv-crewai", ("crewai", "openai")),
    Driver("CrewAI", "holdfast", "Holdfast", ".venv-crewai", ("crewai", "openai")),
    Driver("smolagents", "none", "none", ".venv-smolagents", ("smolagents", "openai")),
    Driver("smolagents", "holdfast", "Holdfast", ".venv-smolagents", ("smolagents", "openai")),
    Driver("LlamaIndex", "own", "Context, Memory", ".venv-llamaindex", _LLAMAINDEX),
    Driver("LlamaIndex", "holdfast", "Holdfast", ".venv-llamaindex", _LLAMAINDEX),
    Driver("Strands", "own", "FileSessionManager", ".venv-strands", ("strands-agents", "boto3")),
    Driver("Strands", "holdfast", "Holdfast", ".venv-strands", ("strands-agents", "boto3")),
)
