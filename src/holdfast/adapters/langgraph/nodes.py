"""``durable_node``: what a node does inside is recorded in the thread's run, call by call.

LangGraph records a node when it has ended; a killed one runs again from its first line. Inside a durable
node, finished model calls of a wrapped client (``holdfast.wrap``) and finished tools (``@holdfast.tool``) are
answered from the journal.
"""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from holdfast.adapters.langgraph.thread_place import find_place
from holdfast.engine.sync_async import AWAITING, BLOCKING, drive
from holdfast.errors import Misuse

F = TypeVar("F", bound=Callable[..., Any])


def durable_node(node: F) -> F:
    """See ``holdfast.adapters.langgraph.durable_node``."""
    if not hasattr(node, "__code__") and not hasattr(node, "__func__"):
        raise Misuse(
            problem=f"durable_node takes the function of a node, and was given {type(node).__name__}",
            advice="wrap the function before it becomes a runnable; a graph inside has nodes of its own",
        )
    made: Any = _awaiting(node) if iscoroutinefunction(node) else _blocking(node)
    return made  # type: ignore[no-any-return]


def _blocking(node: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(node)
    def run(*args: Any, **kwargs: Any) -> Any:
        place = find_place()
        if place is None:
            return node(*args, **kwargs)
        drive(place.arrived(BLOCKING))
        with place.entered(place.task):
            return node(*args, **kwargs)

    return run


def _awaiting(node: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(node)
    async def run(*args: Any, **kwargs: Any) -> Any:
        place = find_place()
        if place is None:
            return await node(*args, **kwargs)
        await place.arrived(AWAITING)
        with place.entered(place.task):
            return await node(*args, **kwargs)

    return run
