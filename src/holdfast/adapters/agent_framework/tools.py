"""Tool calls: a call is a step, identified by the tool's name and its arguments.

A tool may change the state of its agent's session, and ask the user for input by raising. Both are recorded
with its result, and happen again in a replay.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from agent_framework import (  # pyright: ignore[reportMissingImports]
    SKIP_PARSING,
    Content,
    FunctionMiddleware,
    FunctionTool,
    MiddlewareTermination,
    UserInputRequiredException,
)
from agent_framework import _tools as framework  # pyright: ignore[reportMissingImports]
from pydantic_core import to_jsonable_python

from holdfast.adapters.agent_framework.model import position
from holdfast.adapters.shared.durable_block import ParallelCalls
from holdfast.adapters.shared.journaled_calls import (
    COMPOSITE,
    RunPosition,
    call_options_of,
    is_step,
    storable,
)
from holdfast.adapters.shared.swallowed_stops import SwallowedStops
from holdfast.codec.values import encode
from holdfast.core.text.value_text import one_line
from holdfast.engine.run.call_site import here_now
from holdfast.engine.steps.call_options import choose
from holdfast.errors import NotStorable
from holdfast.limits import STEP_NAME_CHARS_MAX
from holdfast.model.calls import EFFECTS, CallOptions, Effect

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun

_REFUSED: Final = tuple(
    getattr(framework, name)
    for name in ("_FunctionArgumentValidationError", "_FunctionArgumentsChangedAfterApproval")
    if hasattr(framework, name)
)
"""What the framework raises before it calls a function whose arguments are wrong: nothing happened."""
_MARK: Final = "agent_framework"
"""The key of a recorded outcome that is more than a value."""
_CONTENTS: Final = "agent_framework.contents"
_MORE: Final = "additional_properties"
_ASKS: Final = "_holdfast_asks"
"""The attribute of a tool about which the run asks; the framework does not serialize it."""
_INSIDE: ContextVar[bool] = ContextVar("holdfast agent_framework tool", default=False)


class Flight(SwallowedStops):
    """The calls of agents that work at the same time, which end before a stop-signal leaves one of them.

    The framework cancels the others when one raises, and a cancelled effect would be in doubt.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls = ParallelCalls()


class Durability:
    """What durable agents share: the effects of their tools, who asks for approvals, their open calls."""

    def __init__(
        self, effects: Mapping[str, Effect], *, asks: bool, hold: Callable[[Any, "Durability"], None]
    ) -> None:
        """``hold`` makes an agent durable that comes as a tool while another one works."""
        self.agent, self.hold = "model", hold
        """The name of model calls."""
        self.asks = asks
        self._effects = dict(effects)
        for effect in self._effects.values():
            choose("effects", effect, EFFECTS)
        self._flights: WeakKeyDictionary[HeldRun, Flight] = WeakKeyDictionary()
        self._asking: dict[int, tuple[Any, Any]] = {}

    def named(self, agent: str | None) -> "Durability":
        """The same for an agent of this name."""
        other = copy(self)
        other.agent = one_line(agent or "model", STEP_NAME_CHARS_MAX)
        return other

    def flight(self) -> Flight:
        """The flight of agents of the current run. Inside of a tool, a new one: the tool is in flight."""
        here = here_now()
        if here is None or _INSIDE.get():
            return Flight()
        flight = self._flights.get(here.held)
        if flight is None or flight.stop is not None:
            flight = self._flights[here.held] = Flight()
        return flight

    def call_options(self, tool: Any) -> CallOptions:
        """The options of a tool; one that is an agent is made of steps, and durable from now on."""
        agent = agent_behind(tool)
        if agent is not None and tool.name not in self._effects:
            self.hold(agent, self)
            return COMPOSITE
        name = tool.name
        known: dict[str, Effect] | None = {name: self._effects[name]} if name in self._effects else None
        return call_options_of([name], known)[name]

    def asking(self, tool: Any) -> Any:
        """The tool without the framework's approval, if the run asks; the same one each time."""
        if not isinstance(tool, FunctionTool) or tool.approval_mode != "always_require":
            return tool
        if id(tool) not in self._asking:
            made = copy(tool)
            made.approval_mode = "never_require"
            setattr(made, _ASKS, True)
            self._asking[id(tool)] = (tool, made)
        return self._asking[id(tool)][1]


class DurableFunctions(FunctionMiddleware):
    """The innermost function middleware of one agent's turns: each call that reaches it is a step."""

    def __init__(self, durability: Durability) -> None:
        self._durability = durability
        self._flight = durability.flight()

    def asking(self, options: Any) -> Any:
        """The options of a request, with tools about which the run asks."""
        tools = (options or {}).get("tools")
        if not tools or not self._durability.asks or position() is None:
            return options
        given = [self._durability.asking(tool) for tool in framework.normalize_tools(tools)]
        return {**options, "tools": given}

    async def process(self, context: Any, call_next: Callable[[], Any]) -> None:
        """The recorded outcome of this call, or its outcome now, recorded before it is returned."""
        seam = position()
        if seam is None:
            await call_next()
            return
        with self._flight.guarded():
            await self._flight.calls.carry(self._called(seam, context, call_next))

    async def _called(self, seam: RunPosition, context: Any, call_next: Callable[[], Any]) -> None:
        tool, given = context.function, _plain(context.arguments)
        if getattr(tool, _ASKS, False) and (denial := await seam.approve_async(tool.name, given)):
            context.result = denial
            return
        if is_step(tool.func):
            with _inside():
                await call_next()
            return
        call_options = self._durability.call_options(tool)
        is_live = False

        async def perform() -> Any:
            nonlocal is_live
            is_live = True
            with _inside():
                return await _outcome(context, call_next)

        recorded = await seam.tool_async(call_options, tool.name, given, perform, tool.func)
        more = recorded[_MARK] if isinstance(recorded, dict) and _MARK in recorded else {}
        if more.get("is_refused") or (more.get("adds_tools") and not is_live and not call_options.is_once):
            await call_next()  # again: it raises, or gives the agent its tools
        else:
            _give(context, recorded["value"] if more else recorded, more)


async def _outcome(context: Any, call_next: Callable[[], Any]) -> Any:
    """What a call came to, as it is recorded: a bare value, if there is nothing else to tell."""
    before, tools = _state_of(context), _tools_of(context)
    more: dict[str, Any] = {}
    try:
        await call_next()
        value = _kept(context.result)
    except _REFUSED:
        value, more["is_refused"] = None, True
    except UserInputRequiredException as asked:
        value, more["asks"] = str(asked), [part.to_dict() for part in asked.contents]
    except MiddlewareTermination as ended:
        value, more["ends"] = _kept(context.result or ended.result), str(ended)
    changed = [key for key, was in _state_of(context).items() if before.get(key) != was]
    if changed:
        more["state"] = {key: context.session.state[key] for key in changed}
    if _tools_of(context) != tools:
        more["adds_tools"] = True
    return {_MARK: more, "value": value} if more else value


def _give(context: Any, value: Any, more: Mapping[str, Any]) -> None:
    """Give a recorded outcome to the framework."""
    if context.session is not None:
        context.session.state.update(more.get("state") or {})
    if "asks" in more:
        raise UserInputRequiredException([Content.from_dict(part) for part in more["asks"]], value)
    context.result = value if context.function.result_parser is SKIP_PARSING else _given(value)
    if "ends" in more:
        raise MiddlewareTermination(more["ends"], result=context.result)


def _kept(result: Any) -> Any:
    """A result as it is kept: a text as it is, other contents as plain data."""
    if not isinstance(result, list) or not all(isinstance(part, Content) for part in result):
        return storable(result)
    parts = [to_jsonable_python(part.to_dict(), fallback=str) for part in result]
    if len(parts) == 1 and parts[0] == {"type": "text", "text": parts[0].get("text"), _MORE: {}}:
        return parts[0]["text"]
    return {_CONTENTS: parts}


def _given(value: Any) -> Any:
    """The result for the framework; of a call that a person settled, any value."""
    if isinstance(value, dict) and value.keys() == {_CONTENTS}:
        return [Content.from_dict(part) for part in value[_CONTENTS]]
    return FunctionTool.parse_result(value)


def _state_of(context: Any) -> dict[str, bytes]:
    """The state of the session, as far as it can be stored; only for tools that can reach it."""
    if context.session is None or getattr(context.function, "_context_parameter_name", None) is None:
        return {}
    state: dict[str, bytes] = {}
    for key, value in context.session.state.items():
        try:
            state[key] = encode(value, what="state")
        except NotStorable:
            continue  # the framework's own, such as the history
    return state


def _tools_of(context: Any) -> list[int]:
    return [id(tool) for tool in context.tools or ()]


def _plain(arguments: Any) -> dict[str, Any]:
    """The arguments as data. What Pydantic cannot convert is given as its text."""
    told = arguments.model_dump() if hasattr(arguments, "model_dump") else dict(arguments)
    return dict(to_jsonable_python(told, bytes_mode="base64", fallback=str))


@contextmanager
def _inside() -> Iterator[None]:
    token = _INSIDE.set(True)
    try:
        yield
    finally:
        _INSIDE.reset(token)


def agent_behind(tool: Any) -> Any:
    """The agent that is this tool (``agent.as_tool()``); None for any other."""
    function: Any = getattr(tool, "func", None)
    code = getattr(function, "__code__", None)
    if code is None or not function.__qualname__.endswith("as_tool.<locals>._agent_wrapper"):
        return None
    agent = dict(zip(code.co_freevars, function.__closure__ or (), strict=True)).get("self")
    return None if agent is None else agent.cell_contents
