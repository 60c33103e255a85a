"""``durable(agent)``: calls of an agent inside a run."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final

from strands import Agent  # pyright: ignore[reportMissingImports]
from strands.hooks import BeforeToolCallEvent  # pyright: ignore[reportMissingImports]
from strands.models.model import Model  # pyright: ignore[reportMissingImports]
from strands.tools.structured_output.structured_output_tool import StructuredOutputTool  # pyright: ignore[reportMissingImports]
from strands.types.tools import AgentTool  # pyright: ignore[reportMissingImports]

from holdfast.adapters.shared.journaled_calls import call_options_of
from holdfast.adapters.shared.method_swap import Make
from holdfast.adapters.shared.turns import Turns
from holdfast.adapters.strands.invocation import Invocation, invocation_now
from holdfast.adapters.strands.model import durable_output, durable_stream
from holdfast.adapters.strands.tools import durable_tool
from holdfast.api.enter import Opening
from holdfast.api.enter import run as enter_run
from holdfast.api.store.store import Store
from holdfast.core.text.value_text import one_line
from holdfast.errors import Misuse
from holdfast.limits import STEP_NAME_CHARS_MAX
from holdfast.model.calls import Effect


def durable(
    agent: Agent,
    *,
    run: str | None = None,
    store: "str | os.PathLike[str] | Store | None" = None,
    effects: Mapping[str, Effect] | None = None,
    **options: Any,
) -> "DurableAgent":
    """See ``holdfast.adapters.strands.durable``."""
    if run is not None:
        return DurableAgent(agent, effects, partial(enter_run, run, store=store, **options))
    if store is not None or options:
        raise Misuse(
            problem="durable(...) was given a store or options, and no run to use them for",
            advice='name the run: durable(agent, run="…", store=…)',
        )
    return DurableAgent(agent, effects)


class DurableAgent:
    """An agent whose calls are in a run; everything else about it is unchanged."""

    def __init__(
        self,
        agent: Agent,
        effects: Mapping[str, Effect] | None,
        enter: Callable[..., Opening] | None = None,
    ) -> None:
        """``enter`` gives the run to enter; without it, the current run is used."""
        _check(agent)
        self._effects: dict[str, Effect] = dict(effects or {})
        self._agent, self._enter = agent, enter
        call_options_of(agent.tool_names, self._effects)
        agent.hooks.add_callback(BeforeToolCallEvent, _hold_tool)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._agent, name)

    def __call__(self, prompt: Any = None, **kwargs: Any) -> Any:
        """Call the agent."""
        with self._opening(prompt) as run:
            with self._invoked():
                result = self._agent(prompt, **kwargs)
            if run is not None:
                run.finish(told(result))
        return result

    async def invoke_async(self, prompt: Any = None, **kwargs: Any) -> Any:
        """As a call, awaiting."""
        async with self._opening(prompt) as run:
            with self._invoked():
                result = await self._agent.invoke_async(prompt, **kwargs)
            if run is not None:
                await run.finish(told(result))
        return result

    async def stream_async(self, prompt: Any = None, **kwargs: Any) -> AsyncIterator[Any]:
        """As a call, with the agent's events; the run is entered at the first and left behind the last."""
        result = None
        async with self._opening(prompt) as run:
            with self._invoked():
                async for event in self._agent.stream_async(prompt, **kwargs):
                    result = event.get("result", result)
                    yield event
            if run is not None:
                await run.finish(told(result))

    def structured_output(self, output_model: Any, prompt: Any = None) -> Any:
        """Ask for an output of a class, without tools."""
        with self._opening(prompt) as run:
            with self._invoked():
                result = self._agent.structured_output(output_model, prompt)
            if run is not None:
                run.finish(told(result))
        return result

    async def structured_output_async(self, output_model: Any, prompt: Any = None) -> Any:
        """As ``structured_output``, awaiting."""
        async with self._opening(prompt) as run:
            with self._invoked():
                result = await self._agent.structured_output_async(output_model, prompt)
            if run is not None:
                await run.finish(told(result))
        return result

    def _opening(self, prompt: Any) -> Any:
        return nullcontext() if self._enter is None else self._enter(inputs={"prompt": prompt})

    @contextmanager
    def _invoked(self) -> Iterator[None]:
        turns, agent = Turns.find_or_refuse("a durable agent"), self._agent
        if turns is None:
            yield
            return
        name = one_line(agent.name or "model", STEP_NAME_CHARS_MAX)
        invocation = Invocation(turns, name, self._effects, methods_of)
        with invocation.current(agent.model, getattr(agent, "_aux_model", None)):
            yield


_METHODS: Final[tuple[tuple[type, Mapping[str, Make]], ...]] = (
    (StructuredOutputTool, {}),  # it only checks the output, and leaves it with Strands
    (Model, {"stream": durable_stream, "structured_output": durable_output}),
    (AgentTool, {"stream": durable_tool}),
)


def methods_of(thing: Any) -> Mapping[str, Make]:
    """The methods that make an object durable; none if it is no part of an agent."""
    return next((methods for kind, methods in _METHODS if isinstance(thing, kind)), {})


def _hold_tool(event: BeforeToolCallEvent) -> None:
    """Hold a tool as it is called, from wherever it came."""
    invocation = invocation_now()
    if invocation is not None:
        invocation.hold(event.selected_tool)


def _check(agent: Any) -> None:
    """Misuse for an agent that keeps its work elsewhere, or does it outside of its own calls."""
    refused = {
        "session_manager": (
            getattr(agent, "_session_manager", None),
            "it would be given the same messages again when the run is resumed",
        ),
        "background_tasks": (
            getattr(agent, "_background_tasks", None),
            "tools would work after the call of the agent, when the run is left",
        ),
    }
    for option, (value, why) in refused.items():
        if value is not None:
            raise Misuse(
                problem=f"the agent has {option}: {why}", advice=f"leave {option} out: the run keeps it"
            )


def told(result: Any) -> Any:
    """The result of an agent, as the run records it."""
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json")
    output = getattr(result, "structured_output", None)
    reason = getattr(result, "stop_reason", "")
    kept = {"text": str(result), "stop_reason": reason}
    return kept if output is None else {**kept, "output": output.model_dump(mode="json")}
