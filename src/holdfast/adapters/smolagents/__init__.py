"""smolagents agents whose model calls and tool calls are steps: ``durable(agent)``.

Both kinds of agents: those that call tools, and those that write code which calls tools.
"""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.model.calls import Effect

A = TypeVar("A")

__all__ = ["durable"]
_PARTS: Final = LateParts(__name__, "smolagents", extra="smolagents")


def durable(agent: A, *, effects: "Mapping[str, Effect] | None" = None) -> A:
    """The agent, with each model call and each tool call as a step of the current run.

    Unchanged outside of a run. ``effects`` says which tools only read, or may be repeated:
    ``{"search": "read"}``. The others are ``once``, but for those of smolagents itself, which only read.
    Misuse for an effect of an unknown tool, and for an agent whose code runs in another process.
    """
    made: Any = _PARTS.load("durable_agent").durable(agent, effects=effects)
    return made  # type: ignore[no-any-return]
