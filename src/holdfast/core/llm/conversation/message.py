"""Reads one message: the calls it makes, the results it brings, and its shape."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from orjson import JSONDecodeError, loads

from holdfast.model.named_tuple import NamedTuple

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
ITEM_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
ITEM_RESULTS: Final = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
}
REASONING_FIELDS: Final = (
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "thinking",
    "thinking_blocks",
)
REASONING_PARTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})

Shape = Literal["chat", "items", "parts", "plain", "odd"]


class Ask(NamedTuple):
    """A tool call in a message.

    ``part`` is its index in the message; ``free``: its arguments may be any text.
    """

    id: str
    name: str
    arguments: Any
    part: int = 0
    free: bool = False

    @property
    def named(self) -> str:
        """The call in words, for problems and repairs."""
        return f"call {self.id} ({self.name or '?'})" if self.id else f"a call of {self.name or '?'}"


class Reply(NamedTuple):
    """A tool result in a message, with the id of its call."""

    id: str
    part: int = 0


class Turn(NamedTuple):
    """What a message contains. No provider accepts an ``odd`` one: ``why`` is the code of the problem."""

    shape: Shape
    role: str = ""
    asks: tuple[Ask, ...] = ()
    replies: tuple[Reply, ...] = ()
    why: str = ""


def read(message: Any) -> Turn:
    """What a message contains."""
    if type(message) is not dict and not isinstance(message, Mapping):
        return Turn("odd", why="not_an_object")
    kind, role = message.get("type"), message.get("role")
    if kind in ITEM_CALLS:
        given = message.get(ITEM_CALLS[kind])
        ask = Ask(_text(message.get("call_id")), _text(message.get("name")), given, free=given_freely(kind))
        return Turn("items", asks=(ask,))
    if kind in ITEM_RESULTS:
        return Turn("items", replies=(Reply(_text(message.get("call_id"))),))
    if role is None and isinstance(kind, str):
        return Turn("plain")  # another item of the responses API, such as reasoning or a built-in tool
    if not isinstance(role, str) or role not in ROLES:
        return Turn("odd", why="unknown_role")
    if role == "tool":
        return Turn("chat", role, replies=(Reply(_text(message.get("tool_call_id"))),))
    if role == "assistant":
        return _assistant(message)
    content = message.get("content")
    replies = tuple(_replies(content)) if role == "user" and type(content) is not str else ()
    return Turn("parts" if replies else "plain", role, replies=replies)


def is_message(message: Any) -> bool:
    """Whether this is a message in one of the three shapes."""
    return read(message).shape != "odd"


def is_empty(message: Mapping[str, Any]) -> bool:
    """Whether an assistant's message has no text, call, refusal, audio or reasoning."""
    contents = ("content", "tool_calls", "function_call", "refusal", "audio", *REASONING_FIELDS)
    return not any(message.get(name) for name in contents)


def has_arguments(ask: Ask) -> bool:
    """Whether the arguments of a call are what a provider expects: an object, JSON of one, or nothing."""
    if ask.free or isinstance(ask.arguments, Mapping) or ask.arguments in (None, ""):
        return True
    if not isinstance(ask.arguments, str):
        return False
    try:
        return type(loads(ask.arguments)) is dict
    except JSONDecodeError:
        return False


def given_freely(kind: str) -> bool:
    """Whether calls of this kind take any text instead of an object."""
    return kind in {"custom_tool_call", "custom"}


def _assistant(message: Mapping[str, Any]) -> Turn:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return Turn("chat", "assistant", tuple(_chat_asks(calls)))
    asks = tuple(_part_asks(message.get("content")))
    return Turn("parts" if asks else "plain", "assistant", asks)


def _chat_asks(calls: list[Any]) -> Iterator[Ask]:
    for part, call in enumerate(calls):
        if not isinstance(call, Mapping):
            yield Ask("", "", None, part)
            continue
        free = given_freely(_text(call.get("type")))
        inner = call.get("custom" if free else "function")
        function: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {}
        given = function.get("input" if free else "arguments")
        yield Ask(_text(call.get("id")), _text(function.get("name")), given, part, free)


def _part_asks(content: Any) -> Iterator[Ask]:
    for part, piece in enumerate(content if isinstance(content, list) else ()):
        if isinstance(piece, Mapping) and piece.get("type") == "tool_use":
            yield Ask(_text(piece.get("id")), _text(piece.get("name")), piece.get("input"), part)


def _replies(content: Any) -> Iterator[Reply]:
    for part, piece in enumerate(content if isinstance(content, list) else ()):
        if isinstance(piece, Mapping) and piece.get("type") == "tool_result":
            yield Reply(_text(piece.get("tool_use_id")), part)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
