"""Tool calls: a call is a step, identified by the tool's name and its arguments.

A tool may change the session's state and steer its agent through its context. So these actions are recorded
with its result, and a replay takes them again.
"""

from collections.abc import Callable
from typing import Any, Final

from holdfast.adapters.google_adk.invocation import Invocation, invocation_now
from holdfast.adapters.shared.journaled_calls import is_step, storable
from holdfast.model.calls import Effect

_STEERING: Final = (
    "_finish_task_tool",
    "_request_input_tool",
    "exit_loop_tool",
    "get_user_choice_tool",
    "set_model_response_tool",
    "transfer_to_agent_tool",
)
"""ADK's modules of tools that only steer the agents: they run again."""
_RESULT: Final = "google_adk.result"
_ACTIONS: Final = "google_adk.actions"
"""The keys of a record with actions; without them, it is the result, as a person would settle it, too."""
_READS: Final = ("load_artifacts_tool", "load_memory_tool", "load_web_page")
"""ADK's modules of tools that only read."""


def durable_tool(tool: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """``run_async`` of a tool: the recorded result, or the tool's, recorded before it is returned."""

    async def run_async(*, args: dict[str, Any], tool_context: Any) -> Any:
        invocation = invocation_now()
        if invocation is None:
            return await own(args=args, tool_context=tool_context)
        if _is_agent(tool):
            with invocation.guarded(), invocation.agent_call(tool.name, args):
                return await own(args=args, tool_context=tool_context)
        return await invocation.flight.carry(_called(invocation, tool, own, args, tool_context))

    return run_async


def is_steering(tool: Any) -> bool:
    """Whether a tool does nothing that needs a record."""
    return _module_of(tool).endswith(_STEERING)


async def _called(
    invocation: Invocation, tool: Any, own: Callable[..., Any], args: dict[str, Any], context: Any
) -> Any:
    function, is_live = getattr(tool, "func", None), False

    async def perform() -> Any:
        nonlocal is_live
        is_live = True
        result = storable(await own(args=args, tool_context=context))
        actions = _taken_actions(context.actions)
        return {_RESULT: result, _ACTIONS: actions} if actions else result

    with invocation.guarded():
        turns = invocation.turns_here()
        if is_step(function):
            with turns.entered():
                return await own(args=args, tool_context=context)
        usual: Effect = "read" if _module_of(tool).endswith(_READS) else "once"
        call_options = invocation.call_options(tool.name, usual)
        recorded = await turns.tool_async(call_options, tool.name, args, perform, function)
    if not isinstance(recorded, dict) or _ACTIONS not in recorded:
        return recorded
    if not is_live:
        _take_actions(context, recorded[_ACTIONS])
    return recorded[_RESULT]


def _is_agent(tool: Any) -> bool:
    """Whether a tool is made of agents or nodes, whose own calls are steps."""
    names = {kind.__name__ for kind in type(tool).__mro__ if kind.__module__.startswith("google.adk.tools.")}
    return "NodeTool" in names or ("AgentTool" in names and tool.include_plugins)


def _module_of(tool: Any) -> str:
    return str(getattr(getattr(tool, "func", None), "__module__", None) or type(tool).__module__)


def _taken_actions(actions: Any) -> dict[str, Any]:
    """What a tool did through its context, as it is recorded."""
    told: dict[str, Any] = actions.model_dump(mode="json", exclude_defaults=True, exclude={"state_delta"})
    state = {name: storable(value) for name, value in actions.state_delta.items()}
    return {**told, **({"state_delta": state} if state else {})}


def _take_actions(context: Any, recorded: dict[str, Any]) -> None:
    told = {name: value for name, value in recorded.items() if name != "state_delta"}
    restored = type(context.actions).model_validate(told)
    for name in told:
        setattr(context.actions, name, getattr(restored, name))
    for name, value in recorded.get("state_delta", {}).items():
        context.state[name] = value
