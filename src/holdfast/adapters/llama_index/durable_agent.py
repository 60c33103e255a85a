"""``durable(agent)``: an agent, or a workflow of agents, whose calls are steps of the current run.

Methods of the object are replaced, not of its class: the workflow's runtime knows its objects, so that a copy
would not be one of them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from llama_index.core.agent.workflow import AgentWorkflow  # pyright: ignore[reportMissingImports]
from llama_index.core.agent.workflow.base_agent import (  # pyright: ignore[reportMissingImports]
    BaseWorkflowAgent,
)
from llama_index.core.llms import LLM  # pyright: ignore[reportMissingImports]

from holdfast.adapters.llama_index.llm import durable_llm
from holdfast.adapters.llama_index.tools import durable_tool
from holdfast.adapters.shared.durable_block import ParallelCalls
from holdfast.adapters.shared.journaled_calls import RunPosition, call_options_of
from holdfast.adapters.shared.turns import Turns
from holdfast.engine.run.call_site import here_now
from holdfast.errors import Misuse
from holdfast.model.calls import ONCE, CallOptions, Effect

W = TypeVar("W")
_MARK: Final = "holdfast_durable"
"""The attribute of an object whose methods are replaced."""
_CALLS: Final = "current_tool_calls"
"""LlamaIndex's key for the calls of an agent's run, which are part of its output."""


def durable(what: W, *, effects: Mapping[str, Effect] | None = None) -> W:
    """See ``holdfast.adapters.llama_index.durable``."""
    if isinstance(what, LLM):
        return durable_llm(what)  # type: ignore[no-any-return]
    given: Any = what
    agents: list[Any] = [given] if isinstance(given, BaseWorkflowAgent) else []
    agents += given.agents.values() if isinstance(given, AgentWorkflow) else []
    if not agents:
        raise Misuse(
            problem=f"durable(...) was given a {type(what).__name__}, which is no agent of LlamaIndex",
            advice="for a workflow of your own: durable(llm), and @holdfast.tool for what its steps do",
        )
    if not any(agent.tool_retriever for agent in agents):
        call_options_of([tool.metadata.name for agent in agents for tool in agent.tools or ()], effects)
    options = call_options_of(effects or (), effects)
    for workflow in {id(one): one for one in (given, *agents)}.values():
        if _MARK not in vars(workflow):
            vars(workflow).update({_MARK: True, "run": _with_turns(workflow.run)})
            vars(workflow)["get_tools"] = _with_durable_tools(workflow.get_tools, options)
            if isinstance(workflow, BaseWorkflowAgent):
                DurableAgent(workflow).hold()
    return what


class DurableAgent:
    """The replaced methods of one agent."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._take_step, self._handle = agent.take_step, agent.handle_tool_call_results
        self._order: list[str] = []
        """The ids of the calls of the current turn, as the model has them."""

    def hold(self) -> None:
        """Replace the methods, and the client of the LLM."""
        self._agent.llm = durable_llm(self._agent.llm)
        vars(self._agent)["take_step"] = self.take_step
        vars(self._agent)["handle_tool_call_results"] = self.handle_tool_call_results

    async def take_step(self, *args: Any, **kwargs: Any) -> Any:
        """A turn of the agent: its model call follows the one before it, though each turn is a task."""
        seam = RunPosition.find_free()
        if seam is None:
            return await self._take_step(*args, **kwargs)
        with Turns.current(seam).leading():
            output = await self._take_step(*args, **kwargs)
        self._order = [call.tool_id for call in output.tool_calls]
        return output

    async def handle_tool_call_results(self, ctx: Any, results: list[Any], memory: Any) -> None:
        """The results for the model, in the order of its calls.

        LlamaIndex gives them in the order in which they came, which is another one in each attempt.
        """
        places = {tool_id: place for place, tool_id in enumerate(self._order)}
        results.sort(key=lambda result: places.get(result.tool_id, len(places)))
        of_the_run = await ctx.store.get(_CALLS, default=[])
        await ctx.store.set(_CALLS, [*of_the_run[: len(of_the_run) - len(results)], *results])
        await self._handle(ctx, results, memory)


def _with_durable_tools(
    get_tools: Callable[..., Any], options: Mapping[str, CallOptions]
) -> Callable[..., Any]:
    """A ``get_tools`` of durable tools, including those that were found for this turn.

    A handover changes the workflow alone: it happens again.
    """
    flight, once = ParallelCalls(), ONCE._replace(is_tool=True)

    async def found(*args: Any, **kwargs: Any) -> list[Any]:
        named = [(str(tool.metadata.name), tool) for tool in await get_tools(*args, **kwargs)]
        return [
            tool if name == "handoff" else durable_tool(tool, options.get(name, once), flight)
            for name, tool in named
        ]

    return found


def _with_turns(run: Callable[..., Any]) -> Callable[..., Any]:
    """A ``run`` whose tasks know the turns of the agent in the current run."""

    def started(*args: Any, **kwargs: Any) -> Any:
        turns = Turns.find_free()
        if turns is None:
            if here_now() is None:
                RunPosition.find_or_refuse("a durable agent")
            return run(*args, **kwargs)
        with turns.taken():
            return run(*args, **kwargs)

    return started
