"""Tool calls: a call is a step, identified by the tool's name and its arguments."""

from functools import partial
from io import BytesIO
from typing import Any, Final

from PIL import Image  # pyright: ignore[reportMissingImports]
from smolagents.agent_types import AgentText  # pyright: ignore[reportMissingImports]
from smolagents.default_tools import FinalAnswerTool  # pyright: ignore[reportMissingImports]

from holdfast.adapters.shared.journaled_calls import is_step, storable
from holdfast.adapters.smolagents.model import AgentPosition
from holdfast.codec.type_registry import register
from holdfast.model.calls import CallOptions, Effect

register(AgentText, encode=str, decode=AgentText)  # what an agent returns, so that a run can finish with it

_IMAGE: Final = "smolagents.image"
"""The key of a recorded result that is an image."""


class DurableTool:
    """The mixin for the class of a tool: its calls are steps."""

    holdfast_position: AgentPosition
    holdfast_options: CallOptions
    name: str
    inputs: dict[str, Any]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The recorded result of this call, or the tool's, recorded before it is returned."""
        forward, turns = super().forward, self.holdfast_position.turns  # type: ignore[misc]
        perform, function = partial(forward, *args, **kwargs), getattr(forward, "__wrapped__", forward)
        if turns is None:
            return perform()
        if is_step(function):
            with turns.entered():
                return perform()
        given = {**dict(zip(self.inputs, args, strict=False)), **kwargs}
        outcome = turns.tool(self.holdfast_options, self.name, given, lambda: _recorded(perform()), function)
        if isinstance(outcome, dict) and _IMAGE in outcome:
            return Image.open(BytesIO(outcome[_IMAGE]))
        return outcome


def effect_of(tool: Any) -> Effect:
    """The effect of a tool that nothing is said about; those of smolagents itself only read."""
    return "read" if type(tool).__module__ == "smolagents.default_tools" else "once"


def is_plain(tool: Any) -> bool:
    """Whether a tool does nothing that needs a record."""
    return type(tool) is FinalAnswerTool


def _recorded(value: Any) -> Any:
    """A result as it is recorded: an image as a file, anything else that cannot be stored as text."""
    if not isinstance(value, Image.Image):
        return storable(value)
    file = BytesIO()
    value.save(file, format="PNG")
    return {_IMAGE: file.getvalue()}
