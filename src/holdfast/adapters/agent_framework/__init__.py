"""Microsoft Agent Framework: agents whose model calls and tool calls are steps, by ``durable(agent)``.

Agents, workflows of agents, and chat clients for programs of one's own.
"""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.adapters.agent_framework.durable_agent import Approvals
    from holdfast.model.calls import Effect

W = TypeVar("W")

__all__ = ["durable"]
_PARTS: Final = LateParts(__name__, "agent_framework", extra="agent-framework")


def durable(what: W, *, effects: "Mapping[str, Effect] | None" = None, approvals: "Approvals" = "run") -> W:
    """The agent, or the workflow of agents, with each model call and tool call as a step of the current run.

    It is the given object; outside of a run it works as before. Of a chat client, a copy with each model call
    and tool call as a step. ``effects`` says which tools only read, or may be repeated: ``{"search":
    "read"}``. The others are ``once``. ``approvals`` says who asks about tools that need an approval: the
    run, which is parked until a person answers, or the program, by Agent Framework's own requests.

    Misuse for an effect of an unknown tool, and for what has no chat client of Agent Framework.
    """
    made: Any = _PARTS.load("durable_agent").durable(what, effects=effects, approvals=approvals)
    return made  # type: ignore[no-any-return]
