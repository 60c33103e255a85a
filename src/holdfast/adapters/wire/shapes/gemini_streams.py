"""Reads, continues and replays Gemini's streams: a piece is a response with some parts of each candidate."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from orjson import dumps

from holdfast.adapters.wire.shapes.shape import Chunk, WireSource
from holdfast.core.llm.streams import Partial, is_whole

_ENDS: Final = {"STOP": "stop", "MAX_TOKENS": "length"}
_FACTS: Final = ("modelVersion", "responseId", "createTime", "promptFeedback")
_CUT_OFF: Final = {"finishReason": "OTHER", "finishMessage": "interrupted"}


class ContentSource(WireSource):
    """Streams of responses. The parts are kept beside their text, each with the length of its own."""

    conversation = "contents"
    _calls = 0

    @property
    def messages(self) -> Sequence[Any]:
        """The contents of the request."""
        said = self.body.get("contents")
        return said if isinstance(said, list) else [said]

    @property
    def can_continue(self) -> bool:
        """Only text can be continued."""
        return bool(self._wanted.get("responseMimeType", "text/plain") == "text/plain")

    @property
    def _wanted(self) -> dict[str, Any]:
        return self.body.get("generationConfig") or {}

    def body_for(self, messages: Sequence[Any] | None, had: int) -> Chunk:
        """The body; the messages that continue an answer are written as contents."""
        if messages is None:
            return self.body
        body = super().body_for([_content(message) for message in messages], had)
        limit = self._wanted.get("maxOutputTokens")
        if isinstance(limit, int):
            body["generationConfig"] = {**self._wanted, "maxOutputTokens": max(1, limit - had)}
        return body

    def delta_of(self, chunk: Chunk) -> dict[str, Any]:
        """What a piece adds."""
        delta: dict[str, Any] = {"facts": {name: chunk[name] for name in _FACTS if name in chunk}}
        if "usageMetadata" in chunk:
            delta["facts"]["usage"] = chunk["usageMetadata"]
        if (chunk.get("promptFeedback") or {}).get("blockReason"):
            delta["facts"]["finish_reason"] = "blocked"
        for candidate in chunk.get("candidates") or ():
            added = self._delta_of_candidate(candidate)
            if candidate.get("index"):
                delta.setdefault("choices", []).append({"index": candidate["index"], **added})
            else:
                delta |= {**added, "facts": delta["facts"] | added["facts"]}
        return delta

    def _delta_of_candidate(self, candidate: Mapping[str, Any]) -> dict[str, Any]:
        other = {name: fact for name, fact in candidate.items() if name not in {"content", "index"}}
        added: dict[str, Any] = {"facts": {f"candidate.{name}": fact for name, fact in other.items()}}
        if other.get("finishReason"):
            added["facts"]["finish_reason"] = _ENDS.get(other["finishReason"], other["finishReason"].lower())
        parts = (candidate.get("content") or {}).get("parts") or []
        for part in parts:
            if part.get("text"):
                name = "reasoning" if part.get("thought") else "text"
                added[name] = added.get(name, "") + part["text"]
            if "functionCall" in part:
                call = part["functionCall"]
                fragment = {"index": self._calls, "id": call.get("id", ""), "name": call.get("name", "")}
                fragment["arguments"] = dumps(call.get("args") or {}).decode()
                added.setdefault("calls", []).append(fragment)
                self._calls += 1
        if parts:
            sized = [{**part, "text": len(part["text"])} if "text" in part else part for part in parts]
            added["more"] = {"parts": [sized]}
        return added

    @staticmethod
    def answer_of(partial: Partial) -> Chunk:
        """The whole response. One that was cut off ends with ``OTHER``."""
        return _response(partial, _CUT_OFF)

    @staticmethod
    def chunks_of(value: Chunk) -> Iterable[Chunk]:
        """The response in one piece."""
        return [value]

    @staticmethod
    def recovered(partial: Partial) -> Iterable[Chunk]:
        """What has arrived, without an end if it has none."""
        return [_response(partial, {})]

    rest = recovered

    def continued(self, chunk: Chunk, delta: dict[str, Any]) -> Iterable[Chunk]:
        """Unchanged."""
        return self.live(chunk, delta)


def _content(message: Any) -> Any:
    """A message as a content; those of the request are contents already."""
    if not isinstance(message, Mapping) or "content" not in message:
        return message
    role = "model" if message["role"] == "assistant" else "user"
    return {"role": role, "parts": [{"text": message["content"]}]}


def _response(partial: Partial, cut_off: Mapping[str, str]) -> Chunk:
    facts = partial.facts
    answers = (
        [] if facts.get("finish_reason") == "blocked" else [(0, partial), *sorted(partial.others.items())]
    )
    response: Chunk = {"candidates": [_candidate(index, one, cut_off) for index, one in answers]}
    if "usage" in facts:
        response["usageMetadata"] = facts["usage"]
    return response | {name: facts[name] for name in _FACTS if name in facts}


def _candidate(index: int, partial: Partial, cut_off: Mapping[str, str]) -> Chunk:
    known = {
        name.removeprefix("candidate."): fact
        for name, fact in partial.facts.items()
        if name.startswith("candidate.")
    }
    whole = is_whole(partial)
    parts = [part for part in _parts(partial) if whole or not _is_unfinished(part)]
    content = {"content": {"role": "model", "parts": parts}} if parts else {}
    return {**content, **known, **({} if whole else cut_off), "index": index}


def _parts(partial: Partial) -> list[Chunk]:
    """The parts of an answer, neighbouring texts of one kind in one.

    The lengths are those of the last try: they count from the end, and what is before them comes first.
    """
    left = {True: partial.reasoning, False: partial.text}
    parts: list[Chunk] = []
    for part in reversed((partial.more.get("parts") or [[]])[-1]):
        if "text" in part:
            kind = bool(part.get("thought"))
            at = max(0, len(left[kind]) - part["text"])
            part = {**part, "text": left[kind][at:]}  # noqa: PLW2901 - it has its text again
            left[kind] = left[kind][:at]
        parts.insert(0, part)
    parts = [{"text": left[True], "thought": True}, {"text": left[False]}, *parts]
    joined: list[Chunk] = []
    for part in parts:
        if joined and part.keys() <= {"text", "thought"} and joined[-1].keys() == part.keys():
            joined[-1] = {**part, "text": joined[-1]["text"] + part["text"]}
        elif part.get("text") or part.keys() - {"text", "thought"}:
            joined.append(part)
    return joined


def _is_unfinished(part: Mapping[str, Any]) -> bool:
    call = part.get("functionCall") or {}
    return bool(call.get("willContinue") or call.get("partialArgs"))
