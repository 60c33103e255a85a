"""``durable(agent)``: the agent, with its runs journaled in the current run, or in one that it enters."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar, get_args

from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.tools import DeferredToolRequests
from pydantic_core import to_jsonable_python

from holdfast.adapters.pydantic_ai.capability import Durability
from holdfast.api import enter
from holdfast.model.calls import Effect
from holdfast.model.provider_patience import PATIENCE, Patience

DepsT = TypeVar("DepsT")
OutputT = TypeVar("OutputT")


def durable(
    agent: AbstractAgent[DepsT, OutputT],
    *,
    effects: Mapping[str, Effect] | None = None,
    run: str | None = None,
    patience: Patience = PATIENCE,
    **entering: Any,
) -> "DurableAgent[DepsT, OutputT]":
    """See ``holdfast.adapters.pydantic_ai.durable``."""
    durable_agent = DurableAgent(agent)
    durable_agent.durability = Durability(effects, patience=patience)
    durable_agent.entering = None if run is None else {"id": run, **entering}
    return durable_agent


class DurableAgent(WrapperAgent[DepsT, OutputT]):
    """The agent with the capability in each of its runs."""

    durability: Durability
    entering: dict[str, Any] | None

    @asynccontextmanager
    async def iter(self, user_prompt: Any = None, **given: Any) -> AsyncIterator[Any]:
        """Every way to run an agent comes through here.

        A caller with deferred calls as output decides about them.
        """
        if self.entering is None:
            async with self._journaled(user_prompt, given) as agent_run:
                yield agent_run
            return
        async with enter.run(**self.entering) as run:
            async with self._journaled(user_prompt, given) as agent_run:
                yield agent_run
            if agent_run.result is not None and run.status == "running":
                await run.finish(to_jsonable_python(agent_run.result.output, fallback=repr))

    def _journaled(self, user_prompt: Any, given: dict[str, Any]) -> AbstractAsyncContextManager[Any]:
        wanted = given.get("output_type") or self.output_type
        durability = self.durability.for_turns(asks=not _takes_deferred(wanted))
        more = [*(given.pop("capabilities", None) or ()), durability]
        return self.wrapped.iter(user_prompt, capabilities=more, **given)


def _takes_deferred(output: Any) -> bool:
    """Whether an output type, or one of several, is that of deferred calls."""
    several = output if isinstance(output, (list, tuple)) else get_args(output)
    return output is DeferredToolRequests or any(_takes_deferred(one) for one in several)
