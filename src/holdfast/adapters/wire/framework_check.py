"""Says once that a framework uses a wrapped client without its adapter: its tools run again in each attempt.

The stack of a model call shows whether a framework makes it. A program that has loaded the adapter uses it.
"""

import sys
from types import FrameType
from typing import Final

from holdfast.engine.log import log

ADAPTERS: Final = {
    "agent_framework.": "agent_framework",
    "agents.models.openai_": "openai_agents",
    "crewai.": "crewai",
    "google.adk.": "google_adk",
    "llama_index.core.agent.": "llama_index",
    "pydantic_ai.": "pydantic_ai",
    "smolagents.": "smolagents",
    "strands.": "strands",
}
"""The adapters of frameworks, by the beginnings of the modules that make model calls for their agents."""
_SHARED: Final = "google."
"""A namespace of several packages: of the clients, too."""
_ROOTS: Final = {
    ".".join(begin.split(".")[: 1 + begin.startswith(_SHARED)]): adapter
    for begin, adapter in ADAPTERS.items()
}
_said: Final[set[str]] = set()


def check_framework() -> None:
    """Warn, once for each framework, if this call comes from one whose adapter is not loaded."""
    modules = sys.modules
    for root, adapter in _ROOTS.items():
        if root in modules and _is_missing(adapter):
            break
    else:
        return
    calling = _adapter_of_caller()
    if calling is not None:
        say_missing(calling)


def say_missing(adapter: str) -> None:
    """Warn, once, that an agent's tools are not held, unless its adapter is loaded."""
    if _is_missing(adapter):
        _said.add(adapter)
        log().warning(
            "an agent uses a wrapped client inside a run: its model calls are held, and its tools run again "
            "in each attempt unless they are @holdfast.tool; holdfast.adapters.%s holds both",
            adapter,
        )


def _is_missing(adapter: str) -> bool:
    """Whether there is something to say about the adapter, and it was not said."""
    return f"holdfast.adapters.{adapter}" not in sys.modules and adapter not in _said


def _adapter_of_caller() -> str | None:
    beginnings, frame = tuple(ADAPTERS), _frame_above()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(beginnings):
            return next(adapter for begin, adapter in ADAPTERS.items() if module.startswith(begin))
        frame = frame.f_back
    return None


def _frame_above() -> FrameType | None:
    return sys._getframe(3)  # noqa: SLF001 - the only cheap way to see who calls
