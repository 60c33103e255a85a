"""The reasoning trace of a run: what the agent noted with ``run.think``, and what models reasoned.

Answers are recognised by their shape: a chat completion, a response with output items, a message with parts.
It knows no client and imports none. Encrypted or redacted reasoning is not shown.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from orjson import JSONDecodeError, loads

from holdfast.core.llm.message_shapes import fields_of
from holdfast.core.llm.streams import fold_partial
from holdfast.model import event_fields
from holdfast.model.event_fields import contents_of, is_hollow, is_model, part_of
from holdfast.model.events import Event, Kind
from holdfast.model.named_tuple import NamedTuple

THOUGHT: Final = "thought"

Read = Callable[[str, int], bytes | None]
"""Reads the blob at an address, of so many bytes; None if it is too long to read."""

_OUTCOMES: Final = frozenset({Kind.STEP_FINISHED, Kind.STEP_SETTLED, Kind.STEP_OVERRIDDEN})
_REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
"""The fields for reasoning in a message.

The first one present counts: the others repeat it in another form.
"""
_REASONING_PARTS: Final = frozenset({"thinking", "reasoning", "reasoning.text", "reasoning.summary"})
_REASONING_TEXTS: Final = ("thinking", "reasoning", "text", "content", "summary")
_CALL_PARTS: Final = frozenset({"tool_use", "tool-call", "tool_call", "function_call"})
_CALL_FIELDS: Final = ("functionCall", "toolUse")
_THINK: Final = ("<think>", "</think>")
_DEPTH_MAX: Final = 8


class ToolRequest(NamedTuple):
    """A call that a model asks for: its name, and its arguments as far as they can be read."""

    name: str
    arguments: Any


class ModelReply(NamedTuple):
    """What a model answered: its texts, the calls it asks for, and its reasoning."""

    texts: tuple[str, ...] = ()
    calls: tuple[ToolRequest, ...] = ()
    reasoning: tuple[str, ...] = ()


class Thought(NamedTuple):
    """One thought: the events it comes from, when it was recorded, its call and model, and the text.

    ``call`` and ``model`` are empty for a note of the agent. ``is_partial``: its call has not ended.
    """

    seqs: tuple[int, ...]
    at: float
    call: str
    model: str
    text: str
    is_partial: bool = False


# -- answers of models ---------------------------------------------------------------------------------------


def speech_of(answer: Any) -> ModelReply:
    """The texts, calls and reasoning of an answer; empty if it has no known shape."""
    if type(answer) is str:
        return _spoken(answer)
    fields = fields_of(answer)
    if fields is None:
        return ModelReply()
    return _joined(map(_spoken_by, _messages_in(fields)))


def split_thinking(text: str) -> tuple[str, str]:
    """A text and the reasoning before it, for models that write both in one text: ``<think>…</think>…``."""
    begun = text.lstrip()
    if not begun.startswith(_THINK[0]):
        return text, ""
    reasoning, _, rest = begun.removeprefix(_THINK[0]).partition(_THINK[1])
    return rest.strip(), reasoning.strip()


def _messages_in(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages of an answer: one per choice or candidate, its output items as one, or the answer."""
    for choice in _list(fields.get("choices")):
        inner = fields_of(choice) or {}
        yield fields_of(inner.get("message")) or ({"content": inner["text"]} if "text" in inner else {})
    for candidate in _list(fields.get("candidates")):
        yield fields_of((fields_of(candidate) or {}).get("content")) or {}
    if isinstance(fields.get("output"), list):
        yield {"content": fields["output"]}
    elif type(fields.get("output")) is dict:
        yield fields_of(fields["output"].get("message")) or {}
    if "message" in fields:
        yield fields_of(fields["message"]) or {}
    if type(fields.get("response")) is str:
        yield {"content": fields["response"], "thinking": fields.get("thinking")}
    if "role" in fields or isinstance(fields.get("content"), (str, list)):
        yield fields


def _spoken_by(message: dict[str, Any]) -> ModelReply:
    found = [_reasoned(message[name]) for name in _REASONING_FIELDS if message.get(name)]
    speech = _joined([*found[:1], _spoken(message.get("content")), _spoken(message.get("parts"))])
    calls = [_asked(call) for call in _list(message.get("tool_calls"))]
    if type(message.get("function_call")) is dict:
        calls.append(_asked(message["function_call"]))
    return speech._replace(calls=speech.calls + tuple(call for call in calls if call is not None))


def _spoken(content: Any, depth: int = 0) -> ModelReply:
    """What a content says, which is a text, a part, or a list of parts."""
    if depth > _DEPTH_MAX or not content:
        return ModelReply()
    if type(content) is str:
        text, reasoning = split_thinking(content)
        return ModelReply((text,) if text.strip() else (), (), (reasoning,) if reasoning else ())
    if type(content) is list:
        return _joined(_spoken(part, depth + 1) for part in content)
    part = fields_of(content)
    if part is None:
        return ModelReply()
    kind = str(part.get("type") or part.get("part_kind") or "")
    if kind in _REASONING_PARTS or part.get("thought") is True:
        return _reasoned(part, depth + 1)
    if type(part.get("reasoningContent")) is dict:
        return _reasoned(part["reasoningContent"].get("reasoningText"), depth + 1)
    if kind in _CALL_PARTS or any(type(part.get(name)) is dict for name in _CALL_FIELDS):
        asked = _asked(next((part[name] for name in _CALL_FIELDS if part.get(name)), part))
        return ModelReply((), () if asked is None else (asked,))
    if type(part.get("text")) is str:
        return _spoken(part["text"], depth + 1)
    return _spoken(part.get("content"), depth + 1) if kind in {"message", "text"} else ModelReply()


def _reasoned(content: Any, depth: int = 0) -> ModelReply:
    """The text of reasoning, which is a text, a part, or a list of either."""
    if depth > _DEPTH_MAX or not content:
        return ModelReply()
    if type(content) is str:
        return ModelReply((), (), (content,) if content.strip() else ())
    if type(content) is list:
        return _joined(_reasoned(part, depth + 1) for part in content)
    part = fields_of(content) or {}
    found = [_reasoned(part[name], depth + 1) for name in _REASONING_TEXTS if part.get(name)]
    return next((speech for speech in found if speech.reasoning), ModelReply())


def _asked(call: Any) -> ToolRequest | None:
    """A call, with its name and arguments under ``function`` or at the top."""
    fields = fields_of(call)
    if fields is None:
        return None
    function = fields_of(fields.get("function")) or fields
    name = function.get("name") or function.get("tool_name")
    given = next((function[key] for key in ("arguments", "args", "input") if key in function), None)
    return ToolRequest(name, _parsed(given)) if type(name) is str else None


def _parsed(arguments: Any) -> Any:
    """Arguments as the model wrote them, which need not be JSON."""
    try:
        return loads(arguments) if type(arguments) is str else arguments
    except JSONDecodeError:
        return arguments


def _joined(speeches: Iterable[ModelReply]) -> ModelReply:
    texts: list[str] = []
    calls: list[ToolRequest] = []
    reasoning: list[str] = []
    for speech in speeches:
        texts += speech.texts
        calls += speech.calls
        reasoning += speech.reasoning
    return ModelReply(tuple(texts), tuple(calls), tuple(reasoning))


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


# -- the trace -----------------------------------------------------------------------------------------------


class Trace:
    """Turns events, in the order of the journal, into thoughts."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._models: dict[str, tuple[str, str]] = {}
        """Model calls that have not ended: their names and models."""
        self._chunks: dict[str, list[Event]] = {}

    def add(self, event: Event) -> list[Thought]:
        """The thoughts that one more event completes."""
        if event.kind == Kind.MARK and event.name == THOUGHT:
            return _noted(event, self._read)
        if event.kind == Kind.STEP_STARTED:
            self._begin(event)
        elif event.kind == Kind.STREAM_CHUNK:
            self._chunks.setdefault(event.key, []).append(event)
        elif event.kind in _OUTCOMES and event.key in self._models:
            return self._end(event)
        elif event.kind == Kind.STEP_FAILED:  # the answer came to nothing; a retry streams a new one
            self._chunks.pop(event.key, None)
        return []

    def unfinished(self) -> list[Thought]:
        """The reasoning so far of model calls that have not ended."""
        return [
            thought
            for key, chunks in self._chunks.items()
            if (thought := self._partial(key, chunks)) is not None
        ]

    def _begin(self, event: Event) -> None:
        model = model_of(event.body)
        if model is not None:
            self._models[event.key] = (event.name, model)

    def _end(self, event: Event) -> list[Thought]:
        call, model = self._models.pop(event.key)
        self._chunks.pop(event.key, None)
        answer = value_in(event.body, self._read)
        return [Thought((event.seq,), event.at, call, model, text) for text in speech_of(answer).reasoning]

    def _partial(self, key: str, chunks: Sequence[Event]) -> Thought | None:
        counting = standing(chunks)
        text = fold_partial(body for _, body in counting).reasoning
        if not text.strip():
            return None
        call, model = self._models.get(key, (chunks[0].name, ""))
        return Thought(
            tuple(event.seq for event, _ in counting), counting[-1][0].at, call, model, text, is_partial=True
        )


def thoughts_in(events: Iterable[Event], read: Read) -> list[Thought]:
    """The whole trace of these events, oldest first."""
    trace = Trace(read)
    found = [thought for event in events for thought in trace.add(event)]
    return sorted([*found, *trace.unfinished()], key=lambda thought: thought.seqs)


def model_of(intent: bytes) -> str | None:
    """The model of a call, from the body of its intent; None if it is no model call."""
    return str(event_fields.fields_of(intent).get("model") or "") if is_model(intent) else None


def standing(chunks: Sequence[Event]) -> list[tuple[Event, dict[str, Any]]]:
    """The chunks of a call that count, with their bodies: of its latest try and the tries it continues."""
    counting: list[tuple[Event, dict[str, Any]]] = []
    for event in chunks:
        body = contents_of(event.body)
        if counting and body.get("try") != counting[-1][1].get("try") and not body.get("continues"):
            counting = []
        counting.append((event, body))
    return counting


def value_in(body: bytes, read: Read) -> Any:
    """The value in a body or its blob; None if there is none, or if it is too long to read."""
    fields = event_fields.fields_of(body)
    if "value_blob" not in fields:
        return part_of(body, "value")
    content = read(fields["value_blob"], fields.get("value_bytes", 0))
    return None if content is None else loads(content)


def _noted(event: Event, read: Read) -> list[Thought]:
    value = None if is_hollow(event.body) else value_in(event.body, read)
    text = value.get("text") if isinstance(value, dict) else None
    return [Thought((event.seq,), event.at, "", "", text)] if type(text) is str and text.strip() else []
