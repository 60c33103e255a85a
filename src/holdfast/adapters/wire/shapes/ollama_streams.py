"""Reads, continues and replays Ollama's streams: a line of JSON for each piece."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from orjson import dumps

from holdfast.adapters.wire.shapes.shape import Chunk, WireSource
from holdfast.adapters.wire.stream_decoders import Lines
from holdfast.core.llm.streams import Partial, is_whole

_COUNTS: Final = ("prompt_eval_count", "eval_count")


class LineSource(WireSource):
    """Streams of lines. The last one is marked as done, and has the counts and durations."""

    decoder = Lines
    content_type = "application/x-ndjson"
    spoken: ClassVar = ("content", "thinking", "tool_calls")
    """The names of the text, the reasoning and the calls."""
    _calls = 0

    @staticmethod
    def failure(status: int, words: str) -> Chunk:  # noqa: ARG004 - the same for all sources
        """A line that reports that the answer has failed."""
        return {"error": words}

    @staticmethod
    def encode(chunk: Chunk) -> bytes:
        """A line."""
        return dumps(chunk) + b"\n"

    @staticmethod
    def said_in(chunk: Chunk) -> Mapping[str, Any]:
        """What has the text of a piece."""
        return chunk.get("message") or {}

    @staticmethod
    def saying(said: dict[str, Any]) -> Chunk:
        """A piece with this text."""
        return {"message": {"role": "assistant", **said}}

    def delta_of(self, chunk: Chunk) -> dict[str, Any]:
        """What a line adds."""
        said = self.said_in(chunk)
        text, reasoning, calls = (said.get(name) for name in self.spoken)
        delta: dict[str, Any] = {"text": text or "", "reasoning": reasoning or ""}
        if calls:
            delta["calls"] = [self._fragment(call.get("function") or {}) for call in calls]
            delta["more"] = {"tool_calls": [calls]}
        if chunk.get("logprobs"):
            delta["logprobs"] = {"content": chunk["logprobs"]}
        facts: dict[str, Any] = {name: chunk[name] for name in ("model", "created_at") if name in chunk}
        if chunk.get("done"):
            own = {"message", "logprobs", *self.spoken}
            facts["response"] = {name: fact for name, fact in chunk.items() if name not in own}
            facts["finish_reason"] = chunk.get("done_reason") or "stop"
            facts["usage"] = {name: chunk[name] for name in _COUNTS if name in chunk}
        return {**{name: part for name, part in delta.items() if part}, "facts": facts}

    def _fragment(self, function: Mapping[str, Any]) -> dict[str, Any]:
        self._calls += 1
        arguments = dumps(function.get("arguments") or {}).decode()
        return {"index": self._calls, "name": function.get("name", ""), "arguments": arguments}

    def answer_of(self, partial: Partial) -> Chunk:
        """The whole answer; one that was cut off is done because it was interrupted."""
        ended = {} if is_whole(partial) else {"done": True, "done_reason": "interrupted"}
        return {**self._piece(partial), **ended}

    def chunks_of(self, value: Chunk) -> Iterable[Chunk]:
        """The answer in one line."""
        return [value]

    def recovered(self, partial: Partial) -> Iterable[Chunk]:
        """What has arrived, without an end if it has none."""
        return [self._piece(partial)]

    rest = recovered

    def _piece(self, partial: Partial) -> Chunk:
        facts = partial.facts
        calls = (partial.more.get("tool_calls") or [None])[-1]
        said = dict(zip(self.spoken, (partial.text, partial.reasoning, calls), strict=True))
        head = {name: facts[name] for name in ("model", "created_at") if name in facts}
        kept = {name: part for name, part in said.items() if part or name == self.spoken[0]}
        logprobs = {"logprobs": partial.logprobs["content"]} if partial.logprobs else {}
        return {**head, **self.saying(kept), **logprobs, "done": False, **facts.get("response", {})}

    def continued(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:
        """Unchanged."""
        return self.live(chunk, delta)


class ChatSource(LineSource):
    """Chats."""

    conversation = "messages"

    @property
    def can_continue(self) -> bool:
        """Only text can be continued."""
        return not self.body.get("format")

    def body_for(self, messages: Sequence[Any] | None, had: int) -> Chunk:
        """The body; the text so far counts towards the limit."""
        body = super().body_for(messages, had)
        wanted = body.get("options") or {}
        limit = wanted.get("num_predict")
        if messages is None or not isinstance(limit, int) or limit < 0:
            return body
        return {**body, "options": {**wanted, "num_predict": max(1, limit - had)}}


class CompletionSource(LineSource):
    """Completions of a prompt, which are one turn: an answer that was cut off begins again."""

    spoken = ("response", "thinking", "tool_calls")

    @property
    def can_continue(self) -> bool:
        """Never."""
        return False

    @staticmethod
    def said_in(chunk: Chunk) -> Mapping[str, Any]:
        """The piece itself."""
        return chunk

    @staticmethod
    def saying(said: dict[str, Any]) -> Chunk:
        """The piece itself."""
        return said
