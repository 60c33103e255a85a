"""Bedrock's Converse, as ``boto3`` has it: requests, answers and events are plain data already.

The content of a message is a list of blocks: text, reasoning, uses of tools.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.adapters.wire.shapes.shape import Chunk, Shape, WireSource
from holdfast.core.llm.conversation.dialects import Bedrock
from holdfast.core.llm.streams import Partial, complete_calls, is_whole

_ENDS: Final = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
_KEPT: Final = ("usage", "metrics", "trace", "performanceConfig", "serviceTier")


class ConverseSource(WireSource):
    """Streams of events, each with one field that says what it is."""

    conversation = "messages"
    _block = 0
    """The index of the block that goes on."""

    def body_for(self, messages: Sequence[Any] | None, had: int) -> Chunk:
        """The body; the messages that continue an answer are written in blocks."""
        if messages is None:
            return self.body
        body = super().body_for([_message(message) for message in messages], had)
        wanted = body.get("inferenceConfig") or {}
        if isinstance(wanted.get("maxTokens"), int):
            body["inferenceConfig"] = {**wanted, "maxTokens": max(1, wanted["maxTokens"] - had)}
        return body

    @staticmethod
    def delta_of(chunk: Chunk) -> dict[str, Any]:
        """What an event adds."""
        ((kind, event),) = chunk.items()
        index = event.get("contentBlockIndex", 0)
        if kind == "contentBlockStart" and "toolUse" in event.get("start", {}):
            use = event["start"]["toolUse"]
            return {"calls": [{"index": index, "id": use["toolUseId"], "name": use["name"]}]}
        if kind == "contentBlockDelta":
            return _delta_of_block(event["delta"], index)
        if kind == "messageStop":
            reason = event.get("stopReason", "")
            return {"facts": {**event, "finish_reason": _ENDS.get(reason, reason)}}
        return {"facts": {name: event[name] for name in _KEPT if name in event}}

    @staticmethod
    def answer_of(partial: Partial) -> Chunk:
        """The answer as that of a call without a stream; one that was cut off has only complete calls."""
        whole = is_whole(partial)
        calls = partial.calls if whole else complete_calls(partial)
        blocks: list[Chunk] = []
        if partial.reasoning:
            reasoning = {"text": partial.reasoning}
            if "signature" in partial.more:
                reasoning["signature"] = partial.more["signature"][-1]
            blocks.append({"reasoningContent": {"reasoningText": reasoning}})
        if partial.text:
            blocks.append({"text": partial.text})
        blocks += [
            {"toolUse": {"toolUseId": call.id, "name": call.name, "input": _arguments(call.arguments)}}
            for call in calls
        ]
        facts = {name: fact for name, fact in partial.facts.items() if name != "finish_reason"}
        ended = {} if whole else {"stopReason": "interrupted"}
        return {"output": {"message": {"role": "assistant", "content": blocks}}, **facts, **ended}

    def chunks_of(self, value: Chunk) -> Iterable[Chunk]:
        """The answer in few events."""
        return [{"messageStart": {"role": "assistant"}}, *_events_of(value, 0), *self.closing(value)]

    def closing(self, value: Chunk) -> Iterable[Chunk]:
        """The end. That of a continuation is not given by itself."""
        ended = {name: fact for name, fact in value.items() if name not in {"output", *_KEPT}}
        return [{"messageStop": ended}, {"metadata": {name: value[name] for name in _KEPT if name in value}}]

    def has_given(self, partial: Partial) -> None:
        """The text goes on in its block, behind that of the reasoning."""
        self._block = 1 if partial.reasoning else 0

    def recovered(self, partial: Partial) -> Iterable[Chunk]:
        """What has arrived, without an end."""
        self.has_given(partial)
        return [{"messageStart": {"role": "assistant"}}, *_events_of(self.answer_of(partial), 0)[:-1]]

    def rest(self, partial: Partial) -> Iterable[Chunk]:
        """What follows in the same block."""
        events = _events_of(self.answer_of(partial), self._block)
        return events if is_whole(partial) else events[:-1]

    def continued(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:  # noqa: ARG002 - the chunk says it
        """An event in the block that goes on; the answer has its beginning and its end only once."""
        ((kind, event),) = chunk.items()
        if "contentBlockIndex" not in event:
            return []
        return [{kind: {**event, "contentBlockIndex": event["contentBlockIndex"] + self._block}}]


def _events_of(value: Chunk, first: int) -> list[Chunk]:
    blocks = value["output"]["message"]["content"]
    return [event for index, block in enumerate(blocks, first) for event in _events_of_block(block, index)]


def _delta_of_block(delta: Mapping[str, Any], index: int) -> dict[str, Any]:
    if "text" in delta:
        return {"text": delta["text"]}
    if "toolUse" in delta:
        return {"calls": [{"index": index, "arguments": delta["toolUse"]["input"]}]}
    reasoning = delta.get("reasoningContent") or {}
    if "signature" in reasoning:
        return {"more": {"signature": [reasoning["signature"]]}}
    return {"reasoning": reasoning["text"]} if "text" in reasoning else {}


def _events_of_block(block: Mapping[str, Any], index: int) -> Iterable[Chunk]:
    deltas: list[Chunk] = []
    if "text" in block:
        deltas = [{"text": block["text"]}]
    elif "reasoningContent" in block:
        said = block["reasoningContent"].get("reasoningText") or {}
        deltas = [{"reasoningContent": {name: said[name]}} for name in ("text", "signature") if name in said]
    elif "toolUse" in block:
        use = block["toolUse"]
        start = {"toolUseId": use["toolUseId"], "name": use["name"]}
        yield {"contentBlockStart": {"start": {"toolUse": start}, "contentBlockIndex": index}}
        deltas = [{"toolUse": {"input": dumps(use["input"]).decode()}}]
    for delta in deltas:
        yield {"contentBlockDelta": {"delta": delta, "contentBlockIndex": index}}
    yield {"contentBlockStop": {"contentBlockIndex": index}}


def _arguments(text: str) -> Any:
    try:
        return loads(text or "{}")
    except JSONDecodeError:
        return {"INVALID_JSON": text}


def _message(message: Any) -> Any:
    """A message in blocks; those of the request are so already."""
    content = message.get("content") if isinstance(message, Mapping) else None
    return {**message, "content": [{"text": content}]} if isinstance(content, str) else message


class Converse(Shape):
    """A conversation."""

    name = "converse"
    conversation = "messages"
    dialect = Bedrock()
    content = "output"


class ConverseStream(Converse):
    """A conversation whose answer is streamed."""

    name = "converse_stream"
    source = ConverseSource


class InvokeModel(Shape):
    """A request in the model's own JSON."""

    name = "invoke_model"

    def problem(self, answer: Chunk) -> str:
        """Each model has its own answers."""
        return "" if answer else "it is empty"
