"""LlamaIndex agents whose model calls and tool calls are steps: ``durable(agent)``.

Agents, workflows of agents, and LLMs for workflows of one's own.
"""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.model.calls import Effect

W = TypeVar("W")

__all__ = ["durable"]
_PARTS: Final = LateParts(__name__, "llama_index.core", extra="llama-index")


def durable(what: W, *, effects: "Mapping[str, Effect] | None" = None) -> W:
    """The agent, or the workflow of agents, with each model call and tool call as a step of the current run.

    It is the given object; outside of a run it works as before. Of an LLM, a copy with each model call as a
    step, for workflows of one's own. ``effects`` says which tools only read, or may be repeated:
    ``{"search": "read"}``. The others are ``once``. Misuse for an effect of an unknown tool, and for an LLM
    whose client cannot be wrapped.
    """
    made: Any = _PARTS.load("durable_agent").durable(what, effects=effects)
    return made  # type: ignore[no-any-return]
