"""``durable(agent)``: an agent, or a workflow of agents, whose calls are steps of the current run.

Everything is in a copy of the agent's chat client, which the framework passes on wherever it copies an agent:
to a handoff, to a sub-agent, to a tool.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

from agent_framework import BaseChatClient, RawAgent  # pyright: ignore[reportMissingImports]

from holdfast.adapters.agent_framework.chat_client import DurableClient, durable_client
from holdfast.adapters.agent_framework.tools import Durability, agent_behind
from holdfast.adapters.shared.journaled_calls import call_options_of
from holdfast.engine.steps.call_options import choose
from holdfast.errors import Misuse
from holdfast.model.calls import Effect

W = TypeVar("W")
Approvals = Literal["run", "program"]
_DEPTH_MAX: Final = 6
"""How deep the agents of a workflow may lie in its executors."""


def durable(what: W, *, effects: Mapping[str, Effect] | None = None, approvals: Approvals = "run") -> W:
    """See ``holdfast.adapters.agent_framework.durable``."""
    choose("approvals", approvals, ("run", "program"))
    durability = Durability(effects or {}, asks=approvals == "run", hold=_hold)
    if isinstance(what, BaseChatClient):
        return durable_client(what, durability)  # type: ignore[no-any-return]
    agents = list(_agents_in(what))
    if not agents:
        raise Misuse(
            problem=f"durable(...) was given a {type(what).__name__}, in which there is no agent with a chat "
            "client",
            advice="give it an Agent, a Workflow with agents, or a chat client; an agent that works "
            "elsewhere (A2A, Copilot) is one step of a run: run.step(name, call)",
        )
    _check_effects(agents, effects)
    for agent in agents:
        _hold(agent, durability)
    return what


def _hold(agent: Any, durability: Durability) -> None:
    """Give the agent a durable copy of its chat client. Misuse if it is not one of Agent Framework's."""
    if not isinstance(agent.client, BaseChatClient):
        raise Misuse(
            problem=f"the chat client of agent {agent.name!r} is a {type(agent.client).__name__}, not one of "
            "Agent Framework's: its model calls would be made and paid for again in every attempt",
            advice="derive it from BaseChatClient",
        )
    if not isinstance(agent.client, DurableClient):
        agent.client = durable_client(agent.client, durability.named(agent.name))


def _check_effects(agents: Iterable[Any], effects: Mapping[str, Effect] | None) -> None:
    """Misuse for an effect of an unknown tool, which is likely misspelt, unless more tools may come."""
    tools = [tool for agent in agents for tool in agent.default_options.get("tools") or ()]
    if any(agent.mcp_tools or agent.context_providers for agent in agents):
        call_options_of(effects or (), effects)
    else:
        call_options_of([tool.name for tool in tools if hasattr(tool, "name")], effects)


def _agents_in(thing: Any, depth: int = _DEPTH_MAX, seen: set[int] | None = None) -> Iterator[Any]:
    """The agents in a workflow or an orchestration, and those that are tools of others, each once."""
    seen = set() if seen is None else seen
    if id(thing) in seen or depth == 0:
        return
    seen.add(id(thing))
    inner: Iterable[Any] = ()
    if isinstance(thing, RawAgent):
        yield thing
        behind = (agent_behind(tool) for tool in thing.default_options.get("tools") or ())
        inner = [agent for agent in behind if agent is not None]
    elif isinstance(thing, Mapping):
        inner = thing.values()
    elif isinstance(thing, (list, tuple)):
        inner = thing
    elif type(thing).__module__.startswith("agent_framework"):  # a workflow, an executor, an orchestration
        inner = getattr(thing, "__dict__", {}).values()
    for one in inner:
        yield from _agents_in(one, depth - 1, seen)
