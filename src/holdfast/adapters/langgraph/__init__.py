"""LangGraph on Holdfast: threads that survive, tools that are not repeated, and a memory.

::

    from holdfast.adapters.langgraph import HoldfastSaver, durable_tools

    graph = builder.compile(checkpointer=HoldfastSaver("sqlite:///agent.db"))
"""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.adapters.shared.late_parts import LateParts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.tools import BaseTool

    from holdfast.adapters.langgraph.saver import HoldfastSaver
    from holdfast.adapters.langgraph.store import HoldfastStore
    from holdfast.adapters.langgraph.thread_import import import_threads
    from holdfast.model.calls import Effect

F = TypeVar("F", bound="Callable[..., Any]")

__all__ = ["HoldfastSaver", "HoldfastStore", "durable_node", "durable_tools", "import_threads"]
_PARTS: Final = LateParts(__name__, "langgraph", extra="langgraph")


def durable_node(node: F) -> F:
    """The same node, for ``add_node``, or task, for ``@task``; its calls are steps of the thread's run.

    In a graph without a HoldfastSaver it is the plain function.
    """
    made: Any = _PARTS.load("nodes").durable_node(node)
    return made  # type: ignore[no-any-return]


def durable_tools(
    tools: "Sequence[BaseTool | Callable[..., Any]]", effects: "Mapping[str, Effect] | None" = None
) -> "list[BaseTool]":
    """The same tools, for a ``ToolNode`` or an agent, each call recorded.

    The default of ``effects`` is ``once``.

    A function decorated with ``@holdfast.tool`` keeps its declaration. Outside of a thread the calls are
    steps of the current run, and outside of a run plain calls.
    """
    made: Any = _PARTS.load("tools").durable_tools(tools, effects)
    return made  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    places = {"HoldfastSaver": "saver", "HoldfastStore": "store", "import_threads": "thread_import"}
    return _PARTS.find(name, places)
