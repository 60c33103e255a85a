"""Anthropic's messages: deltas from the events of a stream, the message of a partial answer, its events.

A message is a list of content blocks. Each finished block is a fact of the partial answer, under the number
of its place (``block.0``); the text of an unfinished block is only in the text of the answer. A continuation
is another message: of it, text and calls are joined to the first one. Its blocks are numbered from the fact
``first`` on.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from orjson import JSONDecodeError, dumps, loads

from holdfast.core.llm.streams.partial_answer import Partial, is_whole

Event = dict[str, Any]
Block = dict[str, Any]

_FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""The finish reasons of chat completions, which the engine knows, for those of Anthropic."""
_BLOCK: Final = "block."
_ENDS: Final = ("stop_reason", "stop_sequence", "stop_details", "container")
_JOINED: Final = frozenset({"text", "thinking", "redacted_thinking"})
"""Blocks of a continuation that are no blocks of the whole message: its text is joined, its thoughts go."""
_NO_USAGE: Final = {"input_tokens": 0, "output_tokens": 0}
CUT_OFF: Final = "partial_json"
"""The input of a tool as far as it came, in a block whose input is no JSON: the model ran out of tokens."""


class MessageDeltas:
    """Makes deltas of the events of one try after the other, and holds the blocks that are not finished."""

    def __init__(self) -> None:
        self.open: dict[int, Block] = {}
        """The unfinished blocks of the present try, by their index."""
        self._first = 0
        self._inputs: dict[int, str] = {}
        self._usage: dict[str, Any] = {}

    def go_on(self, partial: Partial) -> int:
        """Take the tries from now on for continuations of this answer. Returns the number of their blocks."""
        self._first = max((number for number, _ in _numbered(partial)), default=0) + 1
        return self._first

    def delta_of(self, event: Event) -> dict[str, Any]:
        """What an event adds; empty if it adds nothing."""
        kind, index = event.get("type"), int(event.get("index") or 0)
        if kind == "message_start":
            return self._begun(event.get("message") or {})
        if kind == "content_block_start":
            block = self.open[index] = dict(event.get("content_block") or {})
            self._inputs.pop(index, None)
            if block.get("type") == "tool_use":
                return {"calls": [{"index": index, "id": block.get("id", ""), "name": block.get("name", "")}]}
            return {name: text for name, text in _texts(block) if text}
        if kind == "content_block_delta":
            return self._grown(index, event.get("delta") or {})
        if kind == "content_block_stop":
            return self._finished(index)
        return self._ended(event) if kind == "message_delta" else {}

    def _begun(self, message: Mapping[str, Any]) -> dict[str, Any]:
        self.open, self._inputs = {}, {}
        self._usage = dict(message.get("usage") or {})
        head = {name: value for name, value in message.items() if name not in {"content", "usage"}}
        # The program knows a continuation by the head of the first try.
        own: dict[str, Any] = {"first": self._first} if self._first else {"message": head}
        return {"facts": {"usage": self._usage, **own}}

    def _grown(self, index: int, delta: Mapping[str, Any]) -> dict[str, Any]:
        block = self.open.setdefault(index, {})
        if "text" in delta:
            block["text"] = block.get("text", "") + delta["text"]
            return {"text": delta["text"]} if delta["text"] else {}
        if "thinking" in delta:
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
            return {"reasoning": delta["thinking"]} if delta["thinking"] else {}
        if CUT_OFF in delta:
            self._inputs[index] = self._inputs.get(index, "") + delta[CUT_OFF]
            is_call = block.get("type") == "tool_use" and delta[CUT_OFF]
            return {"calls": [{"index": index, "arguments": delta[CUT_OFF]}]} if is_call else {}
        if "citation" in delta:
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        elif "signature" in delta:
            block["signature"] = delta["signature"]
        return {}

    def _finished(self, index: int) -> dict[str, Any]:
        block, given = self.open.pop(index, {}), self._inputs.pop(index, "")
        if given:
            try:
                block["input"] = loads(given)
            except JSONDecodeError:
                block[CUT_OFF] = given
        if self._first and block.get("type") in _JOINED:
            return {}
        return {"facts": {f"{_BLOCK}{self._first + index}": block}}

    def _ended(self, event: Event) -> dict[str, Any]:
        self._usage |= {
            name: count for name, count in (event.get("usage") or {}).items() if count is not None
        }
        facts: dict[str, Any] = {"usage": dict(self._usage)}
        delta = event.get("delta") or {}
        reason = delta.get("stop_reason")
        if reason is not None:
            more = {name: value for name, value in event.items() if name not in {"type", "delta", "usage"}}
            facts |= {"finish_reason": _FINISH.get(reason, reason), "stop": {**more, **delta}}
        return {"facts": facts}


def message_of(partial: Partial) -> dict[str, Any]:
    """The answer as a message.

    If it was cut off, it has ``"stop_reason": "interrupted"`` and only the blocks that are finished, and
    text.
    """
    facts = partial.facts
    kept, text, more = blocks_of(partial)
    head = {"id": "", "type": "message", "role": "assistant", "model": "", **facts.get("message", {})}
    said = [{"type": "text", "text": text}] if text else []
    stop = facts.get("stop", {}) if is_whole(partial) else {"stop_reason": "interrupted"}
    stop = {name: value for name, value in stop.items() if value is not None}
    return {**head, "content": [*kept, *said, *more], **stop, "usage": facts.get("usage", _NO_USAGE)}


def blocks_of(partial: Partial) -> tuple[list[Block], str, list[Block]]:
    """The blocks before the text that is in no finished block, that text, and the blocks behind it.

    Of a try that was continued the calls are left out: the model that continues makes them again.
    """
    first = partial.facts.get("first")
    kept = [
        block
        for number, block in _numbered(partial)
        if first is None or (number < first and block.get("type") != "tool_use")
    ]
    more = [block for number, block in _numbered(partial) if first is not None and number >= first]
    said = "".join(str(block.get("text", "")) for block in kept if block.get("type") == "text")
    if not partial.text.startswith(said):  # a prefill replaced the whitespace at its end
        kept, said = [block for block in kept if block.get("type") != "text"], ""
    return kept, partial.text[len(said) :], more


def _numbered(partial: Partial) -> list[tuple[int, Block]]:
    found = [(name, block) for name, block in partial.facts.items() if name.startswith(_BLOCK)]
    return sorted((int(name.removeprefix(_BLOCK)), block) for name, block in found)


def _texts(block: Block) -> list[tuple[str, str]]:
    return [("text", block.get("text") or ""), ("reasoning", block.get("thinking") or "")]


# -- events --------------------------------------------------------------------------------------------------


def events_of_message(message: Mapping[str, Any]) -> list[Event]:
    """The events of a stream of this message, up to its stop."""
    return [opening(message), *events_of_blocks(message["content"]), closing(message)]


def opening(message: Mapping[str, Any]) -> Event:
    """The event that begins a message."""
    begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    return {"type": "message_start", "message": begun}


def closing(message: Mapping[str, Any]) -> Event:
    """The event that ends a message."""
    ends = {name: message[name] for name in _ENDS if name in message}
    delta = {"stop_reason": None, "stop_sequence": None, **ends}
    more = {name: message[name] for name in ("context_management",) if name in message}
    return {"type": "message_delta", "delta": delta, "usage": message.get("usage") or {}, **more}


def events_of_blocks(blocks: list[Block], start: int = 0, shift: int = 0) -> Iterator[Event]:
    """The events of these blocks, from one of them on; their indices are shifted by so many."""
    for number, block in enumerate(blocks[start:], start + shift):
        begun, deltas = _emptied(block)
        yield _start(number, begun)
        for delta in deltas:
            yield _delta(number, delta)
        yield _stop(number)


class ContinuedMessage:
    """The rest of a message that the program has begun to read: its text as it comes, all else at its end."""

    def __init__(self, partial: Partial, given: Mapping[int, Block]) -> None:
        """``given`` are the unfinished blocks that the program has."""
        kinds = [block.get("type") for block in given.values()]
        self._place = len(blocks_of(partial)[0])
        """The place in the message of the text that is continued."""
        self._is_open = "text" in kinds
        self._shift = len(kinds) - self._is_open
        """How many blocks the program has that are not part of the message: thoughts that were cut off."""

    def more(self, text: str) -> list[Event]:
        """The events of more text."""
        if not text:
            return []
        at = self._place + self._shift
        begun: list[Event] = []
        if not self._is_open:
            begun = [_stop(at - 1)] if self._shift else []
            begun.append(_start(at, {"type": "text", "text": ""}))
        self._is_open = True
        return [*begun, _delta(at, {"type": "text_delta", "text": text})]

    def closing(self, message: Mapping[str, Any]) -> list[Event]:
        """The end of the text, the blocks behind it, and the end of the message."""
        ended = [_stop(self._place + self._shift)] if self._is_open else []
        later = events_of_blocks(message["content"], self._place + self._is_open, self._shift)
        return [*ended, *later, closing(message)]


def _start(index: int, block: Block) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, delta: Block) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def _emptied(block: Block) -> tuple[Block, list[dict[str, Any]]]:
    """A block before anything is in it, and what is added to it then."""
    kind = block.get("type")
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations") or ()]
        begun = {**block, "text": "", **({"citations": []} if cited else {})}
        return begun, [*cited, {"type": "text_delta", "text": block.get("text", "")}]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": block.get("thinking", "")}]
        if block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    if isinstance(block.get("input"), dict):
        given = block.get(CUT_OFF) or (dumps(block["input"]).decode() if block["input"] else "")
        begun = {name: value for name, value in block.items() if name != CUT_OFF}
        return {**begun, "input": {}}, [{"type": "input_json_delta", CUT_OFF: given}] if given else []
    return block, []
