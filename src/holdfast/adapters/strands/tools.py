"""Tool calls as steps.

Strands makes parallel calls in tasks of their own, where a stop-signal is lost. So the invocation remembers
it: the calls beside it end, since a cancelled effect would be in doubt, and no model is asked after it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from strands.types._events import ToolInterruptEvent, ToolResultEvent  # pyright: ignore[reportMissingImports]

from holdfast.adapters.shared.journaled_calls import is_step, storable
from holdfast.adapters.strands.invocation import Invocation, invocation_now
from holdfast.api.shared import Scope
from holdfast.errors import Misuse


def durable_tool(tool: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """``stream`` of a tool: its calls are steps, identified by the id that the model gave the call."""

    async def stream(tool_use: Any, invocation_state: Any, **kwargs: Any) -> AsyncIterator[Any]:
        invocation = invocation_now()
        called = partial(own, tool_use, invocation_state, **kwargs)
        if invocation is None:
            async for event in called():
                yield event
            return
        # Complete before the first one is passed on: a generator must not leave its place in the run open.
        for event in await _called(invocation, tool, tool_use, called):
            yield event

    return stream


async def _called(invocation: Invocation, tool: Any, tool_use: Any, own: Any) -> list[Any]:
    function, name = getattr(tool, "_tool_func", None), tool_use["name"]
    call_options = invocation.call_options(name)._replace(harmless=(Misuse,))
    events: list[Any] = []

    async def perform() -> Any:
        events.extend([event async for event in own()])
        last = events[-1]
        if isinstance(last, ToolInterruptEvent):
            # Raised again at the end: Strands would tell the model.
            invocation.stop = Misuse(
                problem=f"tool {name!r} interrupts the agent, which the run would not know",
                advice="ask with `holdfast.current().ask(…)`, or declare approve= with @holdfast.tool",
            )
            raise invocation.stop
        error = getattr(last, "exception", None)
        if call_options.is_once and isinstance(error, Exception):
            raise error  # Strands would tell the model, which may try again what has happened
        return storable(_result_of(last))

    with invocation.guarded(), invocation.turns.entered() as here, _scope(here.held, tool_use):
        if is_step(function):
            return [event async for event in own()]
        given = dict(tool_use.get("input") or {})
        result = await invocation.turns.tool_async(call_options, name, given, perform, function)
    return events or [ToolResultEvent({**result, "toolUseId": tool_use["toolUseId"]})]


def _scope(held: Any, tool_use: Any) -> AbstractContextManager[Any]:
    return Scope(held, str(tool_use.get("toolUseId") or "call"))


def _result_of(event: Any) -> Any:
    """The result in the last event of a tool, which may be the result itself."""
    return dict(event.tool_result if isinstance(event, ToolResultEvent) else event)
