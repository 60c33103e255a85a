"""The capability that makes an agent durable. It comes last before the model and the tools.

Outside of a run it does nothing.
"""

import asyncio
from collections.abc import Mapping
from copy import copy
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic_ai import capabilities
from pydantic_ai.capabilities.abstract import CapabilityOrdering
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import DeferredToolResults, ToolApproved, ToolDenied

from holdfast.adapters.pydantic_ai.durability_api import Engine
from holdfast.adapters.pydantic_ai.model import DurableModel
from holdfast.adapters.pydantic_ai.toolset import DurableToolset
from holdfast.adapters.shared.turns import Turns
from holdfast.engine.run.call_site import here_now
from holdfast.engine.steps.call_options import choose
from holdfast.model.calls import EFFECTS, Effect
from holdfast.model.provider_patience import PATIENCE, Patience

if TYPE_CHECKING:
    from holdfast.engine.run.held_run import HeldRun

_AGENT_RUNS: "WeakKeyDictionary[HeldRun, count[int]]" = WeakKeyDictionary()


class Durability(Engine):
    """Each model request and each tool call of the agent is a step of the current run.

    ``effects`` says what tools do to the world, by name (or ``metadata={"holdfast": "read"}`` on the tool
    itself); the others are ``once``. For a tool that needs an approval, the run asks a person.
    """

    asks = True
    turns: Turns | None = None

    def __init__(self, effects: Mapping[str, Effect] | None = None, *, patience: Patience = PATIENCE) -> None:
        super().__init__()
        self.name = "agent"
        self._effects: dict[str, Effect] = dict(effects or {})
        self._patience = patience
        for effect in self._effects.values():
            choose("effects", effect, EFFECTS)

    def for_turns(self, *, asks: bool = True) -> "Durability":
        """A copy for one run of the agent, with its turns in the current run.

        Without turns outside of a run.
        """
        other = copy(self)
        other.turns, other.asks = Turns.find_or_refuse("a durable agent"), asks
        return other

    async def for_run(self, ctx: Any) -> "Durability":  # noqa: ARG002 - the hook's
        """The same for an agent that is not wrapped.

        Drift at its first request is noticed late: this is another task.
        """
        return self.for_turns() if self.turns is None else self

    def get_ordering(self) -> CapabilityOrdering:
        """Innermost: the request includes the changes of other capabilities, and their model."""
        outside = getattr(capabilities, "ModelFallback", None)
        return CapabilityOrdering(position="innermost", wrapped_by=[outside] if outside else [])

    def get_wrapper_toolset(self, toolset: Any) -> DurableToolset | None:
        return None if self.turns is None else DurableToolset(toolset, self.turns, self._effects)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:  # noqa: ARG002 - the hook's
        turns, model = self.turns, request_context.model
        while isinstance(model, WrapperModel) and not isinstance(model, DurableModel):
            model = model.wrapped
        if turns is not None and not isinstance(model, DurableModel):
            request_context.model = DurableModel(request_context.model, turns, self._patience)
        return request_context

    prepare_model_request = before_model_request

    async def handle_deferred_tool_calls(self, ctx: Any, *, requests: Any) -> DeferredToolResults | None:  # noqa: ARG002 - the hook's
        """People's decisions about calls that need an approval; the run is parked until they decide."""
        turns = self.turns if self.asks else None
        if turns is None or not requests.approvals:
            return None
        asked = [turns.approve_async(call.tool_name, call.args_as_dict()) for call in requests.approvals]
        said = [ToolDenied(denial) if denial else ToolApproved() for denial in await asyncio.gather(*asked)]
        named = [call.tool_call_id for call in requests.approvals]
        return DeferredToolResults(approvals=dict(zip(named, said, strict=True)))

    def get_default_run_id(self) -> str | None:
        """The same in every attempt: identifies the agent's run inside this run."""
        here = here_now()
        if here is None:
            return None
        return f"{here.held.birth}.{next(_AGENT_RUNS.setdefault(here.held, count(1)))}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return None if here_now() is None else run_id
