"""A toolset whose calls are steps, identified by name and arguments, not by context or dependencies.

What a tool reports to Pydantic AI by raising (``ModelRetry``, ``ApprovalRequired``, ``CallDeferred`` …) is an
outcome like a returned value: recorded, and raised again in a replay. So is its part of the run's usage.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic_ai import exceptions
from pydantic_ai.toolsets import CombinedToolset, FunctionToolset, WrapperToolset
from pydantic_ai.usage import RunUsage
from pydantic_core import PydanticSerializationError, to_jsonable_python

from holdfast.adapters.pydantic_ai.durability_api import unit_scope
from holdfast.adapters.shared.durable_block import ParallelCalls
from holdfast.adapters.shared.journaled_calls import RunPosition, call_options_of, is_step
from holdfast.engine.steps.call_options import treat
from holdfast.model.calls import Effect

_MARK: Final = "pydantic_ai"
"""The key of a recorded outcome that is more than a returned value."""
_NAMES: Final = ("ModelRetry", "ToolFailed", "ApprovalRequired", "CallDeferred")
_TOLD: Final[dict[str, type[Exception]]] = {
    name: getattr(exceptions, name) for name in _NAMES if hasattr(exceptions, name)
}


@dataclass
class DurableToolset(WrapperToolset[Any]):
    """The tools of an agent, each call a step of the run.

    Those that are steps by themselves stay unchanged.
    """

    seam: RunPosition
    effects: Mapping[str, Effect]
    flight: ParallelCalls = field(default_factory=ParallelCalls)

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        """The tools. Misuse for an effect of an unknown one (likely misspelt), unless more tools may come."""
        tools, leaves = await self.wrapped.get_tools(ctx), list(_leaves(self.wrapped))
        if all(isinstance(leaf, FunctionToolset) for leaf in leaves):
            call_options_of({*tools, *(name for leaf in leaves for name in leaf.tools)}, self.effects)
        return tools

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """The recorded outcome of this call, or its outcome now, recorded before it is returned."""
        function = _function_of(tool)
        if is_step(function):
            with self.seam.entered():
                return await self.flight.carry(self.wrapped.call_tool(name, tool_args, ctx, tool))
        effect = self.effects.get(name) or (tool.tool_def.metadata or {}).get("holdfast", "once")

        async def perform() -> Any:
            # With a usage of its own: parallel calls spend at the same time.
            own, before, raised = replace(ctx, usage=deepcopy(ctx.usage)), deepcopy(ctx.usage), ""
            try:
                with unit_scope():
                    value = await self.wrapped.call_tool(name, tool_args, own, tool)
            except tuple(_TOLD.values()) as told:
                if effect == "once" and _is_timeout(told):
                    raise TimeoutError(str(told)) from told  # it is unknown whether it happened
                value, raised = getattr(told, "message", getattr(told, "metadata", None)), type(told).__name__
            spent = _spent(before, own.usage)
            is_bare = not raised and not spent and not (isinstance(value, dict) and _MARK in value)
            return value if is_bare else {_MARK: {"raised": raised, "spent": spent}, "value": value}

        call_options = treat(effect)._replace(is_tool=True)
        call = self.seam.tool_async(call_options, name, _plain(tool_args), perform, function)
        outcome = await self.flight.carry(call)
        if not (isinstance(outcome, dict) and _MARK in outcome):
            return outcome
        told, value = outcome[_MARK], outcome["value"]
        ctx.usage.incr(RunUsage(**told["spent"]))
        if told["raised"]:
            raise _TOLD[told["raised"]](value)
        return value


def _leaves(toolset: Any) -> Iterator[Any]:
    """The toolsets that it is made of.

    One that is new in each turn (``@agent.toolset``) is a leaf of its own kind.
    """
    inner = [*getattr(toolset, "toolsets", ()), *([toolset.wrapped] if hasattr(toolset, "wrapped") else [])]
    for one in inner:
        yield from _leaves(one)
    if not inner and not isinstance(toolset, CombinedToolset):
        yield toolset


def _function_of(tool: Any) -> Callable[..., Any] | None:
    """The user's function, if the framework has it: a toolset holds the tools of its parts."""
    while hasattr(tool, "source_tool"):
        tool = tool.source_tool
    schema = getattr(getattr(tool, "call_func", None), "__self__", None)
    return getattr(schema, "function", None)


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as data.

    What Pydantic cannot convert is left to the journal, which refuses it by name.
    """
    try:
        return dict(to_jsonable_python(arguments, bytes_mode="base64"))
    except PydanticSerializationError:
        return arguments


def _is_timeout(told: Exception) -> bool:
    """Whether the framework itself timed out; a tool that reports a timeout knows what happened."""
    return isinstance(told.__context__, TimeoutError) and str(told).startswith("Timed out after")


def _spent(before: RunUsage, after: RunUsage) -> dict[str, Any]:
    """The usage between two readings, as the fields of another."""
    was, now = vars(before), vars(after)
    spent = {
        name: now[name] - (was[name] or 0) for name in now if name != "details" and now[name] != was[name]
    }
    details = {name: size - before.details.get(name, 0) for name, size in after.details.items()}
    details = {name: size for name, size in details.items() if size}
    return {**spent, "details": details} if details else spent
