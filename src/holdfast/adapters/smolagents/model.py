"""Model calls: a request is what the model sees, and an answer is a chat completion.

A complete answer and a streamed one are the same record: a run may be resumed with either.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from hashlib import sha256
from typing import Any, Final

from PIL.Image import Image  # pyright: ignore[reportMissingImports]
from smolagents.models import (  # pyright: ignore[reportMissingImports]
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCallStreamDelta,
    agglomerate_stream_deltas,
    get_tool_json_schema,
)
from smolagents.monitoring import TokenUsage  # pyright: ignore[reportMissingImports]

from holdfast.adapters.shared.streams import EventSource
from holdfast.adapters.shared.turns import Turns
from holdfast.adapters.wire.exchange import passed_through
from holdfast.core.llm.streams import Partial
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.provider_wait import Line
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.sync_async import BLOCKING, drive

_PARAMETERS: Final = ("messages", "stop_sequences", "response_format", "tools_to_call_from")
"""The parameters of ``Model.generate``, in positional order."""
_HOW: Final = frozenset({"api_key", "extra_headers", "headers", "timeout", "token"})
"""Settings that say how to ask, not what; they may contain secrets."""


class AgentPosition:
    """Where the calls of one agent belong: its turns in a run; None while it does not work in a run.

    Its model and its tools share it. A context variable would not reach the thread that runs the agent's code.
    """

    turns: Turns | None = None


class LiveAnswer:
    """The model's own answer, with the provider's raw response, which is not recorded."""

    message: Any = None


class DurableModel:
    """The mixin for the class of a model: each known request is answered from the journal."""

    holdfast_position: AgentPosition

    def generate(self, *args: Any, **options: Any) -> Any:
        """The recorded answer to this request, or the model's, recorded before it is returned."""
        perform, turns = partial(super().generate, *args, **options), self.holdfast_position.turns  # type: ignore[misc]
        if turns is None:
            return perform()
        live = LiveAnswer()

        def call(_: Any) -> dict[str, Any]:
            with passed_through():
                live.message = perform()
            return _record(live.message)

        answer = turns.model(_ask(self, turns, args, options), call, Line())
        return _message(answer.value) if answer.is_replayed else live.message

    def parse_tool_calls(self, message: Any) -> Any:
        """A call that the model wrote as text gets an id from its text.

        A random one would be in the next request, and another one in each attempt.
        """
        is_text = not message.tool_calls
        message = super().parse_tool_calls(message)  # type: ignore[misc]
        if is_text and self.holdfast_position.turns is not None:
            for call in message.tool_calls:
                call.id = f"call_{sha256(str(message.content).encode()).hexdigest()[:16]}"
        return message


class DurableStreamingModel(DurableModel):
    """The same for a model that has streams."""

    def generate_stream(self, *args: Any, **options: Any) -> Iterator[Any]:
        """The recorded answer as one piece, or the model's own pieces, journaled as they come."""
        perform, turns = partial(super().generate_stream, *args, **options), self.holdfast_position.turns  # type: ignore[misc]
        if turns is None:
            yield from perform()
            return
        with turns.leading() as here:
            ask = _ask(self, turns, args, options)
            streaming = Streaming(here.held, BLOCKING, ask, Deltas(perform), "restart", Line())
            drive(streaming.begin())
        try:
            while (piece := drive(streaming.next())) is not END:
                yield piece
        finally:
            drive(streaming.close())


class Deltas(EventSource):
    """A stream of a model, whose chunks are smolagents' deltas."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._seen: list[Any] = []

    def open(self, *_: Any) -> Iterator[Any]:
        """Send the request, which the model does when its first delta is asked for."""
        self._seen = []
        deltas = iter(self._send())
        with passed_through():
            first = next(deltas, None)
        return self._deltas(first, deltas)

    def _deltas(self, first: Any, more: Iterator[Any]) -> Iterator[Any]:
        delta = first
        while delta is not None:
            self._seen.append(delta)
            yield delta
            delta = next(more, None)
        yield self.end(self._record())

    def _record(self) -> dict[str, Any]:
        return _record(agglomerate_stream_deltas(self._seen))

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """What a delta adds."""
        if isinstance(chunk, dict):
            return chunk
        calls = [
            {
                "index": call.index,
                "id": call.id or "",
                "name": getattr(call.function, "name", None) or "",
                "arguments": getattr(call.function, "arguments", None) or "",
            }
            for call in chunk.tool_calls or ()
        ]
        return {"text": chunk.content or "", **({"calls": calls} if calls else {})}

    def answer_so_far(self, partial: Partial) -> Any:  # noqa: ARG002 - the deltas say it in the framework's form
        """The answer as far as it was read."""
        return self._record()

    def chunks_of(self, value: Any) -> Iterable[Any]:
        """A recorded answer as one delta."""
        message = _message(value)
        calls = [
            ChatMessageToolCallStreamDelta(index, call.id, call.type, call.function)
            for index, call in enumerate(message.tool_calls or ())
        ]
        return [ChatMessageStreamDelta(message.content, calls or None, message.token_usage)]


def _ask(model: Any, turns: Turns, args: tuple[Any, ...], options: Mapping[str, Any]) -> Ask:
    given = {**dict(zip(_PARAMETERS, args, strict=False)), **options}
    settings = {**{name: part for name, part in given.items() if name not in _PARAMETERS}}
    settings |= getattr(model, "kwargs", None) or {}
    name = str(getattr(model, "model_id", None) or "")
    request = {
        "model": name,
        "messages": [_plain_message(message) for message in given["messages"]],
        "stop": given.get("stop_sequences"),
        "response_format": given.get("response_format"),
        "tools": [get_tool_json_schema(tool) for tool in given.get("tools_to_call_from") or ()],
        "settings": {name: part for name, part in settings.items() if name not in _HOW},
    }
    return Ask(turns.agent, {key: _plain(part) for key, part in request.items() if part}, name)


def _plain_message(message: Any) -> dict[str, Any]:
    if isinstance(message, Mapping):
        return dict(message)
    told = {"role": message.role, "content": message.content}
    return {**told, "tool_calls": [_call(one) for one in message.tool_calls]} if message.tool_calls else told


def _call(call: Any) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": call.type, "function": function}


def _plain(value: Any) -> Any:
    """A part of a request as plain data; of an image its digest."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(part) for part in value]
    if isinstance(value, Image):
        return {"sha256": sha256(value.tobytes()).hexdigest(), "size": list(value.size), "mode": value.mode}
    return f"<{type(value).__name__}>"


def _record(message: Any) -> dict[str, Any]:
    """An answer as it is journaled, in the same form as other adapters' answers."""
    told = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        told["tool_calls"] = [_plain(_call(call)) for call in message.tool_calls]
    usage = message.token_usage
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens} if usage else {}
    return {"choices": [{"message": told}], **({"usage": counts} if counts else {})}


def _message(record: Mapping[str, Any]) -> Any:
    """A journaled answer as the model gave it, without the provider's raw response."""
    usage = TokenUsage(**record["usage"]) if "usage" in record else None
    return ChatMessage.from_dict(dict(record["choices"][0]["message"]), token_usage=usage)
