"""Says once that a framework uses a wrapped client without its adapter: its tools run again in each attempt.

The stack of a model call shows whether a framework makes it. An adapter that holds the model calls of its
framework turns the wire's journal off, or says that it is there.
"""

import sys
from contextvars import ContextVar
from types import FrameType
from typing import Final

from holdfast.engine.log import log
from holdfast.engine.run.call_site import CallSite

ADAPTERS: Final = {
    "agents.models.openai_": "openai_agents",
    "crewai.": "crewai",
    "llama_index.core.agent.": "llama_index",
    "pydantic_ai.": "pydantic_ai",
    "smolagents.": "smolagents",
}
"""The adapters of frameworks, by how the names of the modules begin that make model calls for their agents."""
_BEGINNINGS: Final = tuple(ADAPTERS)
_ROOTS: Final = {begin.partition(".")[0]: adapter for begin, adapter in ADAPTERS.items()}

HAS_ADAPTER: Final[ContextVar[bool]] = ContextVar("holdfast-has-adapter", default=False)
"""Set where an adapter makes the tools durable and leaves the model calls to the wire."""
_said: Final[set[str]] = set()


def check_framework(here: CallSite) -> None:
    """Warn, once for each framework, if this call comes from one whose adapter is not there.

    Not inside of a step, such as the model call of an adapter: its outcome is recorded.
    """
    is_loaded = any(root in sys.modules for root, adapter in _ROOTS.items() if adapter not in _said)
    if not is_loaded or here.depth > 0 or HAS_ADAPTER.get():
        return
    adapter = _adapter_missing()
    if adapter is not None and adapter not in _said:
        _said.add(adapter)
        log().warning(
            "an agent uses a wrapped client inside a run: its model calls are held, and its tools run again in "
            "each attempt unless they are @holdfast.tool; holdfast.adapters.%s holds both",
            adapter,
        )


def _adapter_missing() -> str | None:
    """The adapter of the framework that makes this call."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the only cheap way to see who calls
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_BEGINNINGS):
            return next(adapter for begin, adapter in ADAPTERS.items() if module.startswith(begin))
        frame = frame.f_back
    return None
