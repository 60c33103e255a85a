"""Google ADK runners whose model calls and tool calls are steps: ``durable(runner)``.

All agents of a runner: sub-agents, workflows, and agents that are tools.
"""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.model.calls import Effect

R = TypeVar("R")

__all__ = ["durable"]
_PARTS: Final = LateParts(__name__, "google.adk", extra="google-adk")


def durable(runner: R, *, effects: "Mapping[str, Effect] | None" = None) -> R:
    """The runner, with each model call and each tool call of its agents as a step of the current run.

    It is a copy; outside of a run it works as the given one. ``effects`` says which tools only read, or may
    be repeated: ``{"search": "read"}``. The others are ``once``. Misuse for an effect of an unknown tool.
    """
    made: Any = _PARTS.load("durable_runner").durable(runner, effects=effects)
    return made  # type: ignore[no-any-return]
