"""Requests and answers of CrewAI's LLMs as plain data, for the journal and back."""

import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.core.text.value_text import one_line
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.run.store_session import masked
from holdfast.limits import STEP_NAME_CHARS_MAX

LABEL_CHARS: Final = 60
"""How much of a description is a name."""
_PARAMETERS: Final = (
    "messages",
    "tools",
    "callbacks",
    "available_functions",
    "from_task",
    "from_agent",
    "response_model",
)
"""The parameters of ``BaseLLM.call``, in positional order."""
_DATE: Final = re.compile(r"Current Date: [^\n]*")
_ADDRESS: Final = re.compile(r"call_\d{9,}")
_OBJECT: Final = re.compile(r" at 0x[0-9a-f]{6,}\b")
"""How Python shows a function: the request of a crew's planner names tools like that."""
_CACHED: Final = ("cached_prompt_tokens", "cached_tokens")
"""CrewAI's name, and the journal's."""


def bound(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name."""
    return {**dict(zip(_PARAMETERS, args, strict=False)), **kwargs}


def ask_of(llm: Any, given: Mapping[str, Any]) -> Ask:
    """The request, and its step name: the role of the agent that asks, else the model."""
    agent, model = given.get("from_agent"), str(getattr(llm, "model", ""))
    role = str(getattr(agent, "role", "") or "")
    messages = given.get("messages")
    said = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    request = {"model": model, "role": role, "messages": said}
    request |= {name: given[name] for name in ("tools", "response_model") if given.get(name)}
    is_dated = bool(getattr(agent, "inject_date", False))
    return Ask(
        step_name(role or model or "llm"),
        _PlainRequest(is_dated).plain(request),
        model,
        str(getattr(llm, "provider", "")),
    )


def step_name(text: str) -> str:
    """A valid name for a step or a scope, from any role or description."""
    line = one_line(text, STEP_NAME_CHARS_MAX)
    return "".join(sign for sign in line if sign.isprintable()) or "unnamed"


def task_label(task: Any) -> str:
    """What a task is called: by its name, or by the beginning of its description."""
    return step_name(task.name or masked(task.description)[:LABEL_CHARS])


class _PlainRequest:
    """Makes a request plain, without what differs between processes: the date, and memory addresses.

    CrewAI names a tool call without an id by its memory address, and tools in a plan's request, too.
    """

    def __init__(self, is_dated: bool) -> None:
        self._is_dated = is_dated
        self._calls: dict[str, str] = {}

    def plain(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, Mapping):
            return {str(name): self.plain(part) for name, part in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.plain(part) for part in value]
        if isinstance(value, type):
            schema = getattr(value, "model_json_schema", None)
            return value.__name__ if schema is None else self.plain(schema())
        dump = getattr(value, "model_dump", None)
        return f"<{type(value).__name__}>" if dump is None else self.plain(dump(mode="json"))

    def _text(self, text: str) -> str:
        if self._is_dated:
            text = _DATE.sub("Current Date: (the day it was asked)", text)
        if _ADDRESS.fullmatch(text):
            return self._calls.setdefault(text, f"call_{len(self._calls) + 1}")
        return _OBJECT.sub("", text) if " at 0x" in text else text


def told(answer: Any, usage: Mapping[str, int]) -> dict[str, Any]:
    """An answer as it is journaled, in the same form as other adapters' answers.

    Tool calls keep their types.
    """
    message: dict[str, Any] = {"role": "assistant"}
    if isinstance(answer, str):
        message["content"] = answer
    elif isinstance(answer, list):
        message |= {"content": None, "tool_calls": answer}
    elif hasattr(answer, "model_dump_json"):
        message |= {"content": answer.model_dump_json(), "model": type(answer).__name__}
    else:
        message["value"] = answer
    ours, theirs = _CACHED
    counts = {theirs if name == ours else name: count for name, count in usage.items() if count}
    return {"choices": [{"message": message}], **({"usage": counts} if counts else {})}


def heard(recorded: Mapping[str, Any], llm: Any, given: Mapping[str, Any]) -> Any:
    """A journaled answer as the LLM gave it."""
    message = recorded["choices"][0]["message"]
    if "value" in message:
        return message["value"]
    if "model" in message:
        for shape in (given.get("response_model"), getattr(llm, "response_format", None)):
            if shape is not None and shape.__name__ == message["model"]:
                return shape.model_validate_json(message["content"])
    return message["tool_calls"] if "tool_calls" in message else message["content"]


def usage_of(recorded: Mapping[str, Any]) -> dict[str, int]:
    """The usage of an answer, in CrewAI's form."""
    ours, theirs = _CACHED
    return {ours if name == theirs else name: count for name, count in recorded.get("usage", {}).items()}
