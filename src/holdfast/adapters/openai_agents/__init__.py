"""The OpenAI Agents SDK: inside ``with durable("id"):`` each model and tool call of ``Runner.run`` is a step.

It uses the SDK's ``Model`` and ``ModelProvider``, an agent's ``get_all_tools``, and the runner behind
``Runner``.
"""

from typing import TYPE_CHECKING, Any, Final

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.adapters.openai_agents.durable_runner import Frame
    from holdfast.adapters.openai_agents.session import HoldfastSession
    from holdfast.adapters.shared.durable_block import DurableBlock
    from holdfast.model.calls import Effect

__all__ = ["HoldfastSession", "durable"]
_PARTS: Final = LateParts(__name__, "agents", extra="openai-agents")


def durable(
    run: str = "", *, effects: "Mapping[str, Effect] | None" = None, **entry: Any
) -> "DurableBlock[Frame]":
    """The run of this id, as ``holdfast.run(id, …)`` enters it, with durable agents.

    By default the current run.

    ``effects`` says which tools only read, or may be repeated: ``{"search": "read"}``. The others are
    ``once``.
    """
    made: Any = _PARTS.load("durable_runner").durable(run, effects=effects, **entry)
    return made  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    return _PARTS.find(name, {"HoldfastSession": "session"})
