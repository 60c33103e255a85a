"""Recorded values, failures, sizes and statuses as short texts.

It reads trees as a body has them, types tagged with ``$``; it never builds the values, so the user's classes
need not be importable. Every text is one line.
"""

from typing import Any, Final

from holdfast.core.llm.request_shapes import answered_line, asked_line, tokens_line
from holdfast.core.text.times import ago, clock_time, moment, span
from holdfast.core.text.value_text import (
    CHARS_MAX,
    count,
    failure_line,
    one_line,
    readable,
    size,
)

__all__ = [
    "PRUNED",
    "ago",
    "clock_time",
    "count",
    "failure_line",
    "moment",
    "one_line",
    "readable",
    "size",
    "span",
    "state_line",
    "status_word",
    "value_line",
]

PRUNED: Final = "(pruned)"
"""Shown for a record that has lost its content."""

STATUS_WORDS: Final[dict[str, str]] = {
    "in_doubt": "in doubt",
    "not_begun": "not started",
    "under_way": "under way",
    "cut_off": "cut off",
    "set_aside": "set aside",
}


def status_word(status: str) -> str:
    """A status as a word for people."""
    return STATUS_WORDS.get(status, status)


def value_line(body: dict[str, Any], name: str = "value", chars_max: int = CHARS_MAX) -> str:
    """The value in an event's body, or what is known of one that is not there."""
    if "pruned" in body and name == "value":
        return PRUNED
    if "lost" in body:
        return f"(not storable: {body['lost'].get('found', '?')} at {body['lost'].get('path', '?')})"
    if name == "args" and body.get("effect") == "model":
        return one_line(asked_line(body), chars_max)
    if name == "value" and "usage" in body:
        return _answer(body, chars_max)
    if f"{name}_blob" in body:
        return f"({size(body.get(f'{name}_bytes', 0))})"
    return readable(body[name], chars_max) if name in body else ""


def _answer(body: dict[str, Any], chars_max: int) -> str:
    said = answered_line(body.get("value")) if "value" in body else f"({size(body.get('value_bytes', 0))})"
    if said is None:
        said = readable(body.get("value"), chars_max)
    head = ", ".join(
        part for part in (tokens_line(body["usage"]), "cut off" if body.get("partial") else "") if part
    )
    return one_line(": ".join(part for part in (head, said) if part), chars_max)


def state_line(body: dict[str, Any], chars_max: int = CHARS_MAX) -> str:
    """The state in a checkpoint's body while it is small, else its size."""
    if "pruned" in body:
        return PRUNED
    state = body.get("state")
    if isinstance(state, list) and state and isinstance(state[0], str) and state[0].startswith("#"):
        return f"({size(body.get('state_bytes', 0))})"
    return readable(state, chars_max) if "state" in body else ""
