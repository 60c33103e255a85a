"""Model calls: a request is plain data; an answer is kept as the events of its stream, with joined texts."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from pydantic_core import to_jsonable_python

from holdfast.adapters.shared.streams import EventSource
from holdfast.adapters.strands.invocation import Invocation, invocation_now
from holdfast.core.llm.streams import Partial
from holdfast.engine.llm.model_call import Ask
from holdfast.engine.llm.stream import END, Streaming
from holdfast.engine.sync_async import AWAITING

_COUNTS: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheWriteInputTokens": "cache_creation_input_tokens",
}

_TEXTS: Final = {"toolUse": "input", "reasoningContent": "text"}
"""The field with the text, of the pieces that are no plain text."""


def durable_stream(model: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """``stream`` of a model: recorded answers as events, or its own events, journaled as they come."""

    async def stream(
        messages: Any, tool_specs: Any = None, system_prompt: Any = None, **more: Any
    ) -> AsyncIterator[Any]:
        invocation = invocation_now()
        send = partial(own, messages, tool_specs, system_prompt, **more)
        if invocation is None:
            async for event in send():
                yield event
            return
        asked = {"tools": tool_specs, "system": more.get("system_prompt_content") or system_prompt}
        ask = _ask(model, invocation, messages, {**asked, "tool_choice": more.get("tool_choice")})
        with invocation.guarded(), invocation.turns.leading() as here:
            streaming = Streaming(here.held, AWAITING, ask, Events(send), "restart")
            await streaming.begin()
        try:
            while (event := await _next(invocation, streaming)) is not END:
                yield event
        finally:
            await streaming.close()

    return stream


def durable_output(model: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """``structured_output`` of a model: the recorded output, or the model's own."""

    async def structured_output(
        output_model: Any, prompt: Any, system_prompt: Any = None, **more: Any
    ) -> AsyncIterator[Any]:
        invocation = invocation_now()
        send = partial(own, output_model, prompt, system_prompt, **more)
        if invocation is None:
            async for event in send():
                yield event
            return

        async def call(_: Any) -> Any:
            events = [event async for event in send()]
            text = events[-1]["output"].model_dump_json()
            return {"choices": [{"message": {"role": "assistant", "content": text}}]}

        told = {"system": system_prompt, "output": output_model.model_json_schema()}
        with invocation.guarded():
            answer = await invocation.turns.model_async(_ask(model, invocation, prompt, told), call)
        text = answer.value["choices"][0]["message"]["content"]
        yield {"output": output_model.model_validate_json(text)}

    return structured_output


async def _next(invocation: Invocation, streaming: Streaming) -> Any:
    with invocation.guarded():
        return await streaming.next()


def _ask(model: Any, invocation: Invocation, messages: Any, told: Mapping[str, Any]) -> Ask:
    """The request. Ids and metadata of messages, which are new in each process, are no part of it."""
    config = model.get_config()
    name = str((config.get("model_id") if isinstance(config, dict) else None) or type(model).__name__)
    said = [{"role": message["role"], "content": message["content"]} for message in messages]
    request = {"model": name, "messages": said, **{part: value for part, value in told.items() if value}}
    return Ask(invocation.name, to_jsonable_python(request, bytes_mode="base64", fallback=str), name)


class Events(EventSource):
    """A stream of a model: the events of Strands, which are plain data."""

    def __init__(self, send: Callable[[], AsyncIterator[Any]]) -> None:
        self._send = send
        self._events: list[Any] = []
        self._block = -1

    async def open(self, *_: Any) -> AsyncIterator[Any]:
        """Send the request."""
        return self._sent()

    async def _sent(self) -> AsyncIterator[Any]:
        async for event in self._send():
            self._events.append(event)
            yield event
        stops = [event["messageStop"]["stopReason"] for event in self._events if "messageStop" in event]
        yield self.end(record_of(self._events), stops[-1] if stops else None)

    def delta_of(self, chunk: Any) -> dict[str, Any]:
        """What an event adds."""
        if "facts" in chunk:
            return dict(chunk)
        if "contentBlockStart" in chunk:
            self._block += 1
            begun = (chunk["contentBlockStart"].get("start") or {}).get("toolUse")
            return {} if not begun else self._call(begun["toolUseId"], begun["name"], "")
        delta = chunk.get("contentBlockDelta", {}).get("delta", {})
        if "toolUse" in delta:
            return self._call("", "", delta["toolUse"].get("input", ""))
        if "text" in delta:
            return {"text": delta["text"]}
        return {"reasoning": delta.get("reasoningContent", {}).get("text", "")}

    def _call(self, id_: str, name: str, arguments: str) -> dict[str, Any]:
        return {"calls": [{"index": self._block, "id": id_, "name": name, "arguments": arguments}]}

    def answer_so_far(self, partial: Partial) -> Any:  # noqa: ARG002 - the events say more
        """The answer as far as it was read."""
        return record_of(self._events)

    def chunks_of(self, value: Any) -> Iterable[Any]:
        """A recorded answer as events."""
        return list(value["events"])


def record_of(events: Iterable[Any]) -> dict[str, Any]:
    """An answer as it is kept: its events, and its usage where all adapters have it."""
    kept: list[Any] = []
    counts: dict[str, int] = {}
    for event in events:
        joined = _joined(kept[-1], event) if kept else None
        if joined is None:
            kept.append(event)
        else:
            kept[-1] = joined
        usage = event.get("metadata", {}).get("usage", {})
        counts |= {_COUNTS[name]: count for name, count in usage.items() if name in _COUNTS}
    return {"events": kept, **({"usage": counts} if counts else {})}


def _joined(last: Any, event: Any) -> Any:
    """Two pieces of the same text as one; None for other events."""
    before, after = (one.get("contentBlockDelta", {}) for one in (last, event))
    kinds = before.get("delta", {}).keys(), after.get("delta", {}).keys()
    if len(kinds[0]) != 1 or kinds[0] != kinds[1]:
        return None
    (kind,) = kinds[0]
    pieces = [one["delta"][kind] for one in (before, after)]
    name = _TEXTS.get(kind)
    if kind == "text":
        whole: Any = "".join(pieces)
    elif name is not None and all(piece.keys() == {name} for piece in pieces):
        whole = {name: "".join(piece[name] for piece in pieces)}
    else:
        return None
    return {"contentBlockDelta": {**before, "delta": {kind: whole}}}
