"""A tool's answer: text that a model can act upon, the same as data, and refusals with the next step."""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, Final

from orjson import dumps

from holdfast.api.served_run import Found
from holdfast.codec.secrets import mask, masked_data
from holdfast.core.text.value_text import one_line
from holdfast.errors import HoldfastError, RunFinished, StepInDoubt, StopSignal, UnknownPoint, UnknownRun
from holdfast.mcp.held_runs import LOST, Failure, HeldRuns, StepFailed
from holdfast.mcp.sdk import result
from holdfast.model.named_tuple import NamedTuple

VALUE_CHARS_MAX: Final = 4_000
"""The text shows a recorded value up to this length; the data has all of it."""

_HINTS: Final[dict[type, str]] = {
    StepInDoubt: "find out in the outside world whether it happened, then call resolve_step; do not simply "
    "repeat it",
    RunFinished: "start_run(run=…, reopen=true) opens it again",
    UnknownPoint: "show_run(run=…) lists what is recorded",
    UnknownRun: "resume_context lists the runs of this store; start_run(run=…, goal=…) starts a new one",
}
"""Replacements for library hints that are meant for people at a terminal."""


class Reply(NamedTuple):
    """An answer: text, and data for programs."""

    text: str
    facts: dict[str, Any] | None = None


def answering(holder: HeldRuns, tool: Callable[..., Awaitable[Reply]]) -> Callable[..., Awaitable[Any]]:
    """The tool with its answer in the protocol's form.

    A refusal is an answer too; anything else is a defect.
    """

    @wraps(tool)
    async def answered(*args: Any, **kwargs: Any) -> Any:
        try:
            reply = await tool(*args, **kwargs)
        except (HoldfastError, StopSignal, StepFailed, Failure) as error:
            if isinstance(error, LOST):
                await holder.leave(error.run)
            return refusal(error)
        return result(mask(reply.text), masked_data(reply.facts), is_error=False)

    return answered


def refusal(error: BaseException) -> Any:
    """The error as an answer: what was refused, and what to do next. Programs get its type too."""
    hint = _HINTS.get(type(error)) or str(getattr(error, "hint", ""))
    name = type(error).__name__
    text = mask(f"{error}" + (f"\nhint: {hint}" if hint else ""))
    return result(text, {"error": name, "message": mask(str(error)), "hint": mask(hint)}, is_error=True)


def shown(value: Any, chars_max: int = VALUE_CHARS_MAX) -> str:
    """A value as text: JSON, cut if it is long."""
    text = value if isinstance(value, str) else dumps(value, default=str).decode()
    return text if len(text) <= chars_max else f"{text[:chars_max]}… ({len(text):,} characters)"


def called(step: Found) -> str:
    """``#12 publish {"version": "1.4"}``: a step as answers name it."""
    arguments = f" {one_line(shown(step.arguments))}" if step.arguments else ""
    return f"#{step.seq} {step.name}{arguments}" if step.seq else f"{step.name}{arguments}"


def bullets(title: str, lines: Sequence[str]) -> list[str]:
    """A title with lines below; empty without lines."""
    return [title, *(f"- {line}" for line in lines)] if lines else []
