"""Tools in this process: each call of a function that ``create_sdk_mcp_server`` was given is a step.

The SDK tells the model about an exception of a tool. One of a ``once`` tool is not told: what it did is in
doubt, and the run stops.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server  # pyright: ignore[reportMissingImports]

from holdfast.adapters.shared.journaled_calls import RunPosition, call_options_of, is_step, storable
from holdfast.errors import StopSignal
from holdfast.model.calls import CallOptions, Effect
from holdfast.proxy.relay import explained

_DEPTH_MAX = 3


def tools_of(config: Any) -> dict[str, Any]:
    """The tools of a server of the SDK, by name; none if it was not made by ``create_sdk_mcp_server``."""
    server = config.get("instance") if isinstance(config, dict) else None
    handlers = getattr(server, "_request_handlers", None) or getattr(server, "request_handlers", None) or {}
    found: dict[str, Any] = {}
    for handler in handlers.values():
        for value in _closed_over(getattr(handler, "handler", handler), _DEPTH_MAX):
            if (
                isinstance(value, dict)
                and value
                and all(isinstance(one, SdkMcpTool) for one in value.values())
            ):
                found |= value
    return found


def _closed_over(function: Any, depth: int) -> Iterator[Any]:
    """What a function and the functions inside of it have captured: the SDK has no other name for it."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:
            continue
        yield value
        if depth and callable(value):
            yield from _closed_over(value, depth - 1)


def durable_server(
    config: Any,
    tools: Mapping[str, Any],
    effects: Mapping[str, Effect],
    seam: RunPosition,
    stop: Callable[[BaseException], None],
) -> Any:
    """A server with the same tools, whose calls are steps."""
    options = call_options_of(tools, {name: one for name, one in effects.items() if name in tools})
    made = [
        replace(
            tool, handler=tool.handler if is_step(tool.handler) else _handler(tool, options[name], seam, stop)
        )
        for name, tool in tools.items()
    ]
    version = str(getattr(config["instance"], "version", None) or "1.0.0")
    return create_sdk_mcp_server(config["name"], version, made)


def _handler(
    tool: Any, call_options: CallOptions, seam: RunPosition, stop: Callable[[BaseException], None]
) -> Callable[[Any], Any]:
    async def handler(arguments: Any) -> dict[str, Any]:
        async def perform() -> Any:
            return storable(await tool.handler(arguments))

        try:
            result = await seam.tool_async(call_options, tool.name, dict(arguments), perform, tool.handler)
        except StopSignal as error:
            stop(error)
            return _text(explained(error), is_error=True)
        # A denial, and the result that a person gave for a call in doubt, may be text.
        return dict(result) if isinstance(result, dict) else _text(str(result))

    return handler


def _text(said: str, *, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], "is_error": is_error}
