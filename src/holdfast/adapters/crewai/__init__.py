"""CrewAI: crews, flows and agents whose model calls and tool calls are steps of a run.

::

    from holdfast.adapters.crewai import durable

    durable(crew, run="research", effects={"search": "read"}).kickoff(inputs={"topic": "kelp"})

The program builds its crew as usual and calls this again after a crash: finished model calls and tool calls
are not repeated, and the crew continues in the middle of its task. ``HoldfastPersistence`` keeps the states
of flows under ``@persist``.
"""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from holdfast.adapters.crewai.durable_crew import Durable
    from holdfast.adapters.crewai.flows import HoldfastPersistence
    from holdfast.api.store.store import Store
    from holdfast.model.calls import Effect

T = TypeVar("T")

__all__ = ["Durable", "HoldfastPersistence", "durable"]
_PARTS: Final = LateParts(__name__, "crewai", extra="crewai")


def durable(
    subject: T,
    *,
    run: str | None = None,
    store: "str | os.PathLike[str] | Store | None" = None,
    effects: "Mapping[str, Effect] | None" = None,
    **options: Any,
) -> "Durable[T]":
    """The crew (or flow, or agent) with its kickoffs in a run.

    Started, resumed or, if it is finished, replayed.

    Without ``run`` they belong to the current run. ``effects`` says of tools, by name, whether they
    ``"read"``, are ``"idempotent"``, or must happen ``"once"``, which is the default. ``options`` are those
    of ``holdfast.run``.
    """
    made: Any = _PARTS.load("durable_crew").durable(subject, run=run, store=store, effects=effects, **options)
    return made  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    return _PARTS.find(name, {"Durable": "durable_crew", "HoldfastPersistence": "flows"})
