"""Conversations of Gemini, Ollama and Bedrock, written in a shape that is repaired here, and back.

Gemini's contents and Ollama's messages need no ids of calls: a result belongs to the first call of its name,
in the last message with calls, that has none yet. Each message and part carries what it was made from, so
what needs no change is sent exactly as it was. What a dialect does not know is left alone, never refused.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.model.named_tuple import NamedTuple

OWN: Final = "holdfast_own"
"""The key of what a message or a part was made from."""
_OTHER: Final = "holdfast_other"
"""The type of a message or part that is left alone."""


class _Call(NamedTuple):
    """A call that waits for its result. ``given`` is the id that the client gave it, if it did."""

    id: str
    name: str
    given: str


class _Reader:
    """Gives calls their ids, and finds the calls of results, in the order of the messages."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._waiting: list[_Call] = []

    def begin_turn(self) -> None:
        """Another message with calls begins: results behind it belong to it."""
        self._waiting = []

    def call(self, place: str, given: Any, name: Any) -> str:
        """The id of a call: the given one, if no other call has it, or one from its place."""
        known = given if isinstance(given, str) else ""
        made = known if known and known not in self._taken else f"#{place}"
        self._taken.add(made)
        self._waiting.append(_Call(made, str(name), known))
        return made

    def result(self, given: Any, name: Any) -> str:
        """The id of the call that a result belongs to; empty if there is none."""
        by_id = (call for call in self._waiting if call.given and call.given == given)
        by_name = (call for call in self._waiting if not name or call.name == name)
        found = next(by_id, None) or next(by_name, None)
        if found is None:
            return ""
        self._waiting.remove(found)
        return found.id


class Dialect:
    """One way to write a conversation with calls."""

    def read(self, messages: Sequence[Any]) -> list[Any] | None:
        """The conversation in a shape that is known here; None if there are no calls in it."""
        raise NotImplementedError

    def write(self, messages: Iterable[Any]) -> list[Any]:
        """The conversation as the provider has it."""
        raise NotImplementedError


class _Parts(Dialect):
    """Calls and results are parts of messages."""

    content = ""
    """The field of a message with its parts."""
    model = "assistant"
    """The role of the model."""
    call = result = ""
    """The fields of a part that is a call or a result."""

    def read(self, messages: Sequence[Any]) -> list[Any] | None:
        """With the parts as Anthropic has them."""
        if not any(self.call in part or self.result in part for part in self._all_parts(messages)):
            return None
        reader = _Reader()
        return [self._read(reader, index, message) for index, message in enumerate(messages)]

    def write(self, messages: Iterable[Any]) -> list[Any]:
        """With the parts as they were, and with new results."""
        messages = list(messages)
        calls = {
            part["id"]: part[OWN][self.call]
            for message in messages
            for part in message.get("content") or ()
            if part["type"] == "tool_use"
        }
        return [self._written(message, calls) for message in messages]

    def _all_parts(self, messages: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
        for message in messages:
            parts = message.get(self.content) if isinstance(message, Mapping) else None
            yield from (part for part in parts or () if isinstance(part, Mapping))

    def _read(self, reader: _Reader, index: int, message: Any) -> dict[str, Any]:
        parts = message.get(self.content) if isinstance(message, Mapping) else None
        if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
            return {"type": _OTHER, OWN: message}
        is_model = message.get("role") == self.model
        if is_model and any(self.call in part for part in parts):
            reader.begin_turn()
        content = [self._read_part(reader, f"{index}.{at}", part, is_model) for at, part in enumerate(parts)]
        return {"role": "assistant" if is_model else "user", "content": content, OWN: message}

    def _read_part(self, reader: _Reader, place: str, part: Mapping[str, Any], is_model: bool) -> Any:
        call, result = part.get(self.call), part.get(self.result)
        if is_model and isinstance(call, Mapping) and isinstance(call.get("name"), str) and call["name"]:
            given, name, arguments = self.call_of(call)
            made = reader.call(place, given, name)
            return {"type": "tool_use", "id": made, "name": name, "input": arguments, OWN: part}
        if not is_model and isinstance(result, Mapping):
            made = reader.result(*self.result_of(result))
            if made:
                return {"type": "tool_result", "tool_use_id": made, "content": result, OWN: part}
        return {"type": _OTHER, OWN: part}

    def _written(self, message: Mapping[str, Any], calls: Mapping[str, Any]) -> Any:
        own = message.get(OWN)
        if message.get("type") == _OTHER:
            return own
        parts = [self._written_part(part, calls) for part in message["content"]]
        if own is None:
            return {"role": "user", self.content: parts}
        return own if parts == own[self.content] else {**own, self.content: parts}

    def _written_part(self, part: Mapping[str, Any], calls: Mapping[str, Any]) -> Any:
        if OWN not in part:
            return {self.result: self.made_result(calls[part["tool_use_id"]], part["content"])}
        own = part[OWN]
        if part["type"] == "tool_use" and part["input"] != self.call_of(own[self.call])[2]:
            return {**own, self.call: self.with_arguments(own[self.call], part["input"])}
        return own

    @staticmethod
    def call_of(call: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """The id of a call, if it has one, its name and its arguments."""
        raise NotImplementedError

    @staticmethod
    def result_of(result: Mapping[str, Any]) -> tuple[Any, Any]:
        """The id and the name of a result's call, if it has them."""
        raise NotImplementedError

    @staticmethod
    def with_arguments(call: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
        """The call with other arguments."""
        raise NotImplementedError

    @staticmethod
    def made_result(call: Mapping[str, Any], text: str) -> dict[str, Any]:
        """A result for a call that had none."""
        raise NotImplementedError


class Gemini(_Parts):
    """Contents with parts."""

    content = "parts"
    model = "model"
    call, result = "functionCall", "functionResponse"

    @staticmethod
    def call_of(call: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """The API gives calls an id only where it needs one."""
        return call.get("id"), call.get("name"), call.get("args")

    @staticmethod
    def result_of(result: Mapping[str, Any]) -> tuple[Any, Any]:
        """Most have only the name."""
        return result.get("id"), result.get("name")

    @staticmethod
    def with_arguments(call: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
        """The call with other arguments."""
        return {**call, "args": arguments}

    @staticmethod
    def made_result(call: Mapping[str, Any], text: str) -> dict[str, Any]:
        """A response is an object."""
        try:
            value = loads(text)
        except JSONDecodeError:
            value = text
        said = value if isinstance(value, dict) else {"result": value}
        given = {"id": call["id"]} if call.get("id") else {}
        return {**given, "name": call["name"], "response": said}


class Bedrock(_Parts):
    """Messages with blocks. Its calls have ids."""

    content = "content"
    call, result = "toolUse", "toolResult"

    @staticmethod
    def call_of(call: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """As it is."""
        return call.get("toolUseId"), call.get("name"), call.get("input")

    @staticmethod
    def result_of(result: Mapping[str, Any]) -> tuple[Any, Any]:
        """It has no name; one that is no call's is left alone."""
        return result.get("toolUseId"), _OTHER

    @staticmethod
    def with_arguments(call: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
        """The call with other arguments."""
        return {**call, "input": arguments}

    @staticmethod
    def made_result(call: Mapping[str, Any], text: str) -> dict[str, Any]:
        """The id says whose it is."""
        return {"toolUseId": call["toolUseId"], "content": [{"text": text}]}


class Ollama(Dialect):
    """Messages as in chat completions, without ids; a result may name its tool."""

    def read(self, messages: Sequence[Any]) -> list[Any] | None:
        """As chat completions."""
        if not any(isinstance(one, Mapping) and one.get("tool_calls") for one in messages):
            return None
        reader = _Reader()
        return [self._read(reader, index, message) for index, message in enumerate(messages)]

    @staticmethod
    def _read(reader: _Reader, index: int, message: Any) -> dict[str, Any]:
        role = message.get("role") if isinstance(message, Mapping) else None
        calls = message.get("tool_calls") if role == "assistant" else None
        if isinstance(calls, list) and calls and all(map(_is_chat_call, calls)):
            reader.begin_turn()
            made = [_chat_call(reader, f"{index}.{at}", call) for at, call in enumerate(calls)]
            return {"role": "assistant", "tool_calls": made, OWN: message}
        if role == "tool":
            name = message.get("tool_name") or message.get("name")
            call = reader.result(message.get("tool_call_id"), name)
            if call:
                return {"role": "tool", "tool_call_id": call, "content": message.get("content"), OWN: message}
        return {"type": _OTHER, OWN: message}

    def write(self, messages: Iterable[Any]) -> list[Any]:
        """The messages as they were, and new results."""
        messages = list(messages)
        calls = {call["id"]: call for message in messages for call in message.get("tool_calls") or ()}
        return [_written_chat(message, calls) for message in messages]


def _is_chat_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, Mapping) else None
    return isinstance(function, Mapping) and isinstance(function.get("name"), str) and function["name"] != ""


def _chat_call(reader: _Reader, place: str, call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"id": reader.call(place, call.get("id"), function["name"]), "function": function, OWN: call}


def _written_chat(message: Mapping[str, Any], calls: Mapping[str, Mapping[str, Any]]) -> Any:
    own = message.get(OWN)
    if own is None:
        call = calls[message["tool_call_id"]][OWN]
        given = {"tool_call_id": call["id"]} if call.get("id") else {}
        return {
            "role": "tool", "content": message["content"], "tool_name": call["function"]["name"], **given
        }  # fmt: skip
    if not message.get("tool_calls"):
        return own
    made = [{**call[OWN], "function": call["function"]} for call in message["tool_calls"]]
    return own if made == own["tool_calls"] else {**own, "tool_calls": made}
