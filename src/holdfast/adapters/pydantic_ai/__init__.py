"""Pydantic AI agents whose model and tool calls are steps.

``durable(agent)``, or the capability ``Durability``.

It uses the framework's own extension points: a capability that wraps the model of each request and the
toolset, and its durability API for what other capabilities do. docs/adr explains why not that API for all.
"""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.adapters.shared.late_parts import LateParts
from holdfast.model.provider_patience import PATIENCE, Patience

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_ai.agent import AbstractAgent

    from holdfast.adapters.pydantic_ai.capability import Durability
    from holdfast.adapters.pydantic_ai.durable_agent import DurableAgent
    from holdfast.model.calls import Effect

DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")

__all__ = ["Durability", "DurableAgent", "durable"]
_PARTS: Final = LateParts(__name__, "pydantic_ai", extra="pydantic-ai")


def durable(
    agent: "AbstractAgent[DepsT, OutputT]",
    *,
    effects: "Mapping[str, Effect] | None" = None,
    run: str | None = None,
    patience: Patience = PATIENCE,
    **entering: Any,
) -> "DurableAgent[DepsT, OutputT]":
    """The agent, with each model request and tool call as a step of the current run.

    Unchanged outside of a run.

    With ``run=`` (and ``store=`` and other options of ``holdfast.run``) each run of the agent is that run:
    started or resumed, and finished with its output. ``effects`` says what tools do to the world; the others
    are ``once``. ``patience`` says how long to wait for a provider that does not answer.
    """
    made: Any = _PARTS.load("durable_agent").durable(
        agent, effects=effects, run=run, patience=patience, **entering
    )
    return made  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    return _PARTS.find(name, {"Durability": "capability", "DurableAgent": "durable_agent"})
