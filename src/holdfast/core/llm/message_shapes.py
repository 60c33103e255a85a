"""Recognises messages and the calls in them by their shape, and writes them on one line.

A message is an object with a role and a content: as OpenAI's API has it, with a list of parts as in
Anthropic's and Google's, or the same as a dataclass or pydantic model. It knows no client and imports none.
"""

from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.core.text.value_text import one_line, readable
from holdfast.model.secret_text import shown

_BODIES: Final = frozenset({"content", "parts", "tool_calls", "function_call", "tool_call_id"})
_TEXT_CHARS_MAX: Final = 160
_CALL_CHARS_MAX: Final = 120
_CALL_PARTS: Final = ("tool_use", "tool-call", "tool_call", "function_call")
_RESULT_PARTS: Final = ("tool_result", "tool-return", "function_call_output")


def fields_of(value: Any) -> dict[str, Any] | None:
    """The fields of an object, typed or not; None for anything else."""
    if type(value) is not dict:
        return None
    if "$" in value:
        value = value.get("v")
    return value if type(value) is dict else None


def role_of(value: Any) -> str | None:
    """The role of a message; None if this is no message. Its content may be an unresolved reference."""
    fields = fields_of(value)
    if fields is None or _BODIES.isdisjoint(fields):
        return None
    role = fields.get("role")
    if type(role) is dict and role.get("$") == "enum":
        role = role.get("v", role.get("name"))
    return role if type(role) is str else None


def message_line(value: Any) -> str:
    """A message on one line: its text, then its calls."""
    value = shown(value)
    fields = fields_of(value)
    if fields is not None and fields.get("type") in (*_CALL_PARTS, *_RESULT_PARTS):
        return _part(value)  # an item of the responses API has no role
    if fields is None or role_of(value) is None:
        return one_line(value, _TEXT_CHARS_MAX) if type(value) is str else readable(value, _TEXT_CHARS_MAX)
    texts = _spoken(fields.get("content")) + _spoken(fields.get("parts"))
    calls = [_call(call) for call in fields.get("tool_calls") or () if type(call) is dict]
    if type(fields.get("function_call")) is dict:
        calls.append(_call(fields["function_call"]))
    return "; ".join([part for part in [*texts, *calls] if part]) or "(empty)"


def call_text(name: str, arguments: Any, *, named: bool = True) -> str:
    """``search(query="debt")``; unless ``named``, a single argument without its name."""
    if type(arguments) is str:
        arguments = _parsed(arguments)
    if type(arguments) is not dict or "$" in arguments:
        inside = "" if arguments is None else readable(arguments, _CALL_CHARS_MAX)
    else:
        room = max(12, _CALL_CHARS_MAX // max(1, len(arguments)))
        bare = len(arguments) == 1 and not named
        shown = [("" if bare else f"{key}=") + readable(value, room) for key, value in arguments.items()]
        inside = ", ".join(shown)
    return f"{name}({one_line(inside, _CALL_CHARS_MAX)})"


def _parsed(arguments: str) -> Any:
    """Arguments as the model wrote them, which need not be JSON."""
    try:
        return loads(arguments)
    except JSONDecodeError:
        return arguments


def _call(call: dict[str, Any]) -> str:
    """A call, with its name and arguments under ``function`` or at the top."""
    inner = call.get("function")
    function = inner if type(inner) is dict else call
    name = function.get("name") or function.get("tool_name") or "?"
    given = next((function[key] for key in ("arguments", "args", "input") if key in function), None)
    return f"call {call_text(str(name), given)}"


def _spoken(content: Any) -> list[str]:
    """The texts and calls in a content, which is a text or a list of parts."""
    if content is None:
        return []
    if type(content) is str:
        return [one_line(content, _TEXT_CHARS_MAX)]
    if type(content) is list:
        return [_part(part) for part in content]
    return [readable(content, _TEXT_CHARS_MAX)]


def _part(part: Any) -> str:
    fields = fields_of(part)
    if fields is None:
        return one_line(part, _TEXT_CHARS_MAX) if type(part) is str else readable(part, _TEXT_CHARS_MAX)
    kind = str(fields.get("type") or fields.get("part_kind") or "")
    if type(fields.get("functionCall")) is dict:
        return _call(fields["functionCall"])
    if type(fields.get("toolUse")) is dict:
        return _call(fields["toolUse"])
    if kind in _CALL_PARTS:
        return _call(fields)
    if kind in _RESULT_PARTS:
        return "result " + "; ".join(_spoken(fields.get("content", fields.get("output"))))
    if type(fields.get("text")) is str:
        return one_line(fields["text"], _TEXT_CHARS_MAX)
    if "content" in fields:
        return "; ".join(_spoken(fields["content"]))
    return f"({kind})" if kind else readable(fields, _TEXT_CHARS_MAX)
