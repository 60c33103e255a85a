"""Strands Agents: agents whose model calls and tool calls are steps of a run.

::

    from holdfast.adapters.strands import durable

    durable(agent, run="trip", effects={"search": "read"})("Plan a trip to Lisbon")

The program builds its agent as usual and calls this again after a crash: finished model calls and tool calls
are not repeated.
"""

from typing import TYPE_CHECKING, Any, Final

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from strands import Agent  # pyright: ignore[reportMissingImports]

    from holdfast.adapters.strands.durable_agent import DurableAgent
    from holdfast.api.store.store import Store
    from holdfast.model.calls import Effect

__all__ = ["DurableAgent", "durable"]
_PARTS: Final = LateParts(__name__, "strands", extra="strands")


def durable(
    agent: "Agent",
    *,
    run: str | None = None,
    store: "str | os.PathLike[str] | Store | None" = None,
    effects: "Mapping[str, Effect] | None" = None,
    **options: Any,
) -> "DurableAgent":
    """The agent with its calls in a run: started, resumed or, if it is finished, replayed.

    Without ``run`` they belong to the current run. ``effects`` says of tools, by name, whether they
    ``"read"``, are ``"idempotent"``, or must happen ``"once"``, which is the default. ``options`` are those
    of ``holdfast.run``.
    """
    made: Any = _PARTS.load("durable_agent").durable(agent, run=run, store=store, effects=effects, **options)
    return made  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    return _PARTS.find(name, {"DurableAgent": "durable_agent"})
