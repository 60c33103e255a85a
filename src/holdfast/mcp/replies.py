"""What a tool answers: words that a model can act upon, the same as data, and refusals as typed messages with the next move."""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple

from orjson import dumps

from holdfast.api.served_run import Found
from holdfast.core.text.value_text import one_line
from holdfast.errors import HoldfastError, RunFinished, StepInDoubt, StopSignal, UnknownRun
from holdfast.mcp.held_runs import LOST, Holder, StepFailed, StepUnclear
from holdfast.mcp.sdk import result

VALUE_CHARS_MAX: Final = 4_000
"""A recorded value is shown up to here in the words; as data it is whole."""

_HINTS: Final[dict[type, str]] = {
    StepInDoubt: "find out in the outside world whether it happened, then call resolve_step; do not simply repeat it",
    RunFinished: "start_run(run=…, reopen=true) opens it again; fork_run makes another run from it",
    UnknownRun: "list_runs shows what there is; start_run(run=…, goal=…) starts a new one",
}
"""Where the library's own hint is for people at a terminal."""


class Told(NamedTuple):
    """An answer: words, and data where a program could use it."""

    text: str
    facts: dict[str, Any] | None = None


def answering(holder: Holder, tool: Callable[..., Awaitable[Told]]) -> Callable[..., Awaitable[Any]]:
    """The tool with its answer in the protocol's form. A refusal is an answer too; anything else is a defect."""

    @wraps(tool)
    async def answered(*args: Any, **kwargs: Any) -> Any:
        try:
            told = await tool(*args, **kwargs)
        except (HoldfastError, StopSignal, StepFailed, StepUnclear) as error:
            if isinstance(error, LOST):
                await holder.let_go(error.run)
            return refusal(error)
        return result(told.text, told.facts, is_error=False)

    return answered


def refusal(error: BaseException) -> Any:
    """The error as an answer: its type, what was refused, and what to do next."""
    hint = _HINTS.get(type(error)) or str(getattr(error, "hint", ""))
    name = type(error).__name__
    text = f"{name}: {error}" + (f"\nhint: {hint}" if hint else "")
    return result(text, {"error": name, "message": str(error), "hint": hint}, is_error=True)


def shown(value: Any, chars_max: int = VALUE_CHARS_MAX) -> str:
    """A value in the words of an answer: JSON, cut where it is long."""
    text = value if isinstance(value, str) else dumps(value, default=str).decode()
    return text if len(text) <= chars_max else f"{text[:chars_max]}… ({len(text):,} characters)"


def called(step: Found) -> str:
    """``#12 publish {"version": "1.4"}``: a step as it is named in answers."""
    arguments = f" {one_line(shown(step.arguments))}" if step.arguments else ""
    return f"#{step.seq} {step.name}{arguments}" if step.seq else f"{step.name}{arguments}"


def bullets(title: str, lines: Sequence[str]) -> list[str]:
    """A title with lines below; nothing where there are none."""
    return [title, *(f"- {line}" for line in lines)] if lines else []
