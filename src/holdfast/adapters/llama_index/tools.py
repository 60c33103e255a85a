"""Tool calls: a call is a step, identified by the tool's name and its arguments.

A tool may change the state of its agent through its context. So the state that it left is recorded with its
result, and a replay sets it again.
"""

from copy import copy
from typing import Any, Final

from llama_index.core.tools import FunctionTool, ToolOutput  # pyright: ignore[reportMissingImports]
from llama_index.core.tools.types import adapt_to_async_tool  # pyright: ignore[reportMissingImports]

from holdfast.adapters.shared.durable_block import ParallelCalls
from holdfast.adapters.shared.journaled_calls import RunPosition, is_step, storable
from holdfast.adapters.shared.turns import Turns
from holdfast.model.calls import CallOptions

MARK: Final = "holdfast_durable"
"""The attribute of a durable tool."""


def durable_tool(tool: Any, call_options: CallOptions, flight: ParallelCalls) -> Any:
    """A copy of the tool, with its calls as steps, parallel to others of the same flight."""
    if hasattr(tool, MARK):
        return tool
    inner = adapt_to_async_tool(tool)
    name, function = str(inner.metadata.name), getattr(inner, "_real_fn", None)
    context = getattr(inner, "ctx_param_name", None) if isinstance(inner, FunctionTool) else None

    async def acall(*args: Any, **kwargs: Any) -> Any:
        seam = RunPosition.find_free()
        if seam is None:
            return await inner.acall(*args, **kwargs)
        turns = Turns.current(seam)
        if is_step(function):
            with turns.entered():
                return await flight.carry(inner.acall(*args, **kwargs))
        store = kwargs[context].store if context in kwargs else None
        given = {key: value for key, value in kwargs.items() if key != context}
        given |= {"args": list(args)} if args else {}

        async def perform() -> dict[str, Any]:
            output = await inner.acall(*args, **kwargs)
            blocks = [block.model_dump(mode="json") for block in output.blocks]
            told = {"blocks": blocks, "raw_output": storable(output.raw_output), "is_error": output.is_error}
            state = None if store is None else await store.get("state", default=None)
            return told if state is None else {**told, "state": storable(state)}

        recorded = await flight.carry(turns.tool_async(call_options, name, given, perform, function))
        if store is not None and "state" in recorded:
            await store.set("state", recorded["state"])
        return _output(name, given, recorded)

    made = copy(inner)
    made.acall = acall  # agents call their tools in this way alone
    setattr(made, MARK, True)
    return made


def _output(name: str, given: dict[str, Any], recorded: dict[str, Any]) -> Any:
    told = {"tool_name": name, "raw_input": {"args": (), "kwargs": given}}
    return ToolOutput.model_validate(
        {**told, **{part: recorded[part] for part in ("blocks", "raw_output", "is_error")}}
    )
