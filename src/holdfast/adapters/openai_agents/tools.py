"""Tool calls: a call of a function tool is a step, identified by the call's id in the model's answer.

The SDK's message to the model about a tool's failure is the step's outcome, the same in every replay. A
``once`` tool that fails is in doubt: the model is not asked to retry what may have happened.
"""

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from typing import Any

from agents import FunctionTool, Usage
from agents import tool as sdk
from agents.usage import deserialize_usage
from orjson import loads

from holdfast.adapters.openai_agents.model import usage_record
from holdfast.adapters.shared.durable_block import ParallelCalls
from holdfast.adapters.shared.journaled_calls import ASIDE, COMPOSITE, RunPosition, is_step, storable
from holdfast.api.shared import Scope
from holdfast.errors import Misuse
from holdfast.model.calls import CallOptions


def durable_tool(
    tool: FunctionTool, call_options: CallOptions, flights: Mapping[str, ParallelCalls]
) -> FunctionTool:
    """The tool, with its calls as steps, parallel to others of the same scope."""
    if is_step(getattr(tool, "__wrapped__", None)) and tool.needs_approval:
        advice = "@holdfast.tool(approve=True), and no needs_approval"
        raise Misuse(problem=f"tool {tool.name!r} is a step by itself, and needs approval", advice=advice)

    async def invoke(context: Any, arguments: str) -> Any:
        seam = RunPosition.find_free()
        if seam is None:
            return await sdk.invoke_function_tool(function_tool=tool, context=context, arguments=arguments)
        with seam.entered() as here:
            return await flights[here.scope].carry(
                ToolCall(tool, call_options, seam, context, arguments).make()
            )

    likeness = copy(tool)
    likeness.on_invoke_tool = invoke
    likeness.timeout_seconds = None  # the step has the timeout, and records its result
    likeness.needs_approval = False  # the step has the approval too
    return likeness


class ToolCall:
    """One call of a tool."""

    def __init__(
        self, tool: FunctionTool, call_options: CallOptions, seam: RunPosition, context: Any, said: str
    ) -> None:
        self.tool, self.seam, self.context, self.json = tool, seam, context, said
        self.function = getattr(tool, "__wrapped__", None)
        self.is_agent = bool(getattr(tool, "_is_agent_tool", False))
        self.call_options = COMPOSITE if self.is_agent else call_options
        self.arguments: dict[str, Any] = {"arguments": said}
        with suppress(TypeError, ValueError):  # a model may send anything; the tool reports it
            self.arguments = dict(loads(said or "{}"))

    async def make(self) -> Any:
        """The result of the call, or the message to the model instead."""
        with self.seam.entered() as here, Scope(here.held, self.context.tool_call_id or "call"):
            if await self._needs_approval():
                self.call_options = self.call_options._replace(approve=True)
            try:
                return await (self._invoke(self.tool) if is_step(self.function) else self._step())
            except Exception as error:
                told = await sdk.maybe_invoke_function_tool_failure_error_function(
                    function_tool=self.tool, context=self.context, error=error
                )
                if told is None:
                    raise
                return told

    async def _needs_approval(self) -> bool:
        """Whether a person is asked.

        Decided once: a policy may depend on the time, and a denial must stay one.
        """
        policy = self.tool.needs_approval
        if isinstance(policy, bool):
            return policy

        async def ask() -> bool:
            return bool(await policy(self.context, dict(self.arguments), self.context.tool_call_id))

        name = f"{self.tool.name}.needs_approval"
        return bool(await self.seam.tool_async(ASIDE, name, self.arguments, ask))

    async def _step(self) -> Any:
        step = (self.call_options, self.tool.name, self.arguments, self._perform, self.function)
        if not self.is_agent:
            return await self.seam.tool_async(*step)
        # An agent's usage is kept with its answer: a replay calls none of its models, and must count the
        # same.
        usage, self.context = self.context.usage, copy(self.context)
        self.context.usage = Usage()
        outcome = await self.seam.tool_async(*step)
        if isinstance(outcome, str):  # a denial
            return outcome
        usage.add(deserialize_usage(outcome["usage"]))
        return outcome["output"]

    async def _perform(self) -> Any:
        tool = copy(self.tool)
        if self.call_options.effect == "once":  # its failures are raised, not reported to the model
            tool.timeout_behavior = "raise_exception"
            sdk.set_function_tool_failure_error_function(tool, None)
        output = storable(await self._invoke(tool))
        return {"output": output, "usage": usage_record(self.context.usage)} if self.is_agent else output

    async def _invoke(self, tool: FunctionTool) -> Any:
        return await sdk.invoke_function_tool(function_tool=tool, context=self.context, arguments=self.json)
