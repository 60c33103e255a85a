"""What a client may pass to a tool: the schema that a model reads, and the refusal of what does not fit."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.text.close_names import did_you_mean
from holdfast.core.text.value_text import one_line
from holdfast.errors import Misuse

_SHOWN_CHARS: Final = 60


def short_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments, without what says nothing: a model pays for every word of it."""
    fields = {name: _short(field) for name, field in schema.get("properties", {}).items()}
    needed = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": fields, **needed, "additionalProperties": False}


def _short(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field without its title, and without null: what may be left out is not in ``required``."""
    left_out = {"title"} | ({"default"} if field.get("default", "") is None else set())
    short = {key: value for key, value in field.items() if key not in left_out}
    kinds = [dict(kind) for kind in short.pop("anyOf", [])]
    has_number = any(kind.get("type") == "number" for kind in kinds)
    kinds = [
        {key: value for key, value in kind.items() if (key, value) != ("additionalProperties", True)}
        for kind in kinds
        if kind.get("type") != "null" and not (has_number and kind.get("type") == "integer")
    ]
    if len(kinds) == 1:
        return {**kinds[0], **short}
    return {"anyOf": kinds, **short} if kinds else short


def unknown_arguments(tool: str, given: Sequence[str], known: Sequence[str]) -> Misuse:
    """The refusal of arguments that the tool does not take."""
    names = ", ".join(map(repr, given))
    takes = f"{tool} takes {', '.join(known)}" if known else f"{tool} takes no arguments"
    meant = [did_you_mean(name, known) for name in given]
    return Misuse(problem=f"{tool} has no argument {names}", advice=" ".join(filter(None, [*meant, takes])))


def wrong_arguments(tool: str, problems: Sequence[Mapping[str, Any]]) -> Misuse:
    """The refusal of arguments that do not fit, out of the problems that pydantic lists."""
    missing = [str(one["loc"][0]) for one in problems if one["type"] == "missing"]
    said = [f"{tool} needs {', '.join(missing)}"] if missing else []
    wanted: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for one in problems:
        if one["type"] != "missing":
            name, *inside = one["loc"]
            name += "".join(f"[{part}]" for part in inside if isinstance(part, int))
            wanted.setdefault(name, []).append(_wanted(str(one["msg"])))
            values.setdefault(name, one["input"])
    for name, words in wanted.items():
        first, *others = dict.fromkeys(words)
        either = " or ".join([first, *(word.removeprefix("be ") for word in others)])
        said.append(f"{name} must {either}, not {one_line(repr(values[name]), _SHOWN_CHARS)}")
    return Misuse(problem="; ".join(said), advice="")


_WORDS: Final = {
    "Input should ": "",
    "String should ": "",
    "List should ": "",
    "a valid dictionary": "an object",
    "a valid ": "a ",
    "a integer": "an integer",
}
"""Pydantic's words for what it wants, and ours."""


def _wanted(message: str) -> str:
    message = re.sub(r", unable to .*| after validation, not \d+", "", message)
    for library, plain in _WORDS.items():
        message = message.replace(library, plain)
    return message
