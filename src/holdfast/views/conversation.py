"""A conversation with a model: the messages that a call was sent, and what the model answered.

Messages are recognised by their shape, whatever client sent them. What Holdfast has mended in the
conversation, and an answer that was cut off, are marked.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast.core.llm.conversation.message import read
from holdfast.core.llm.message_shapes import call_text, message_line, role_of
from holdfast.core.llm.reasoning import ModelReply, speech_of
from holdfast.core.llm.request_shapes import parts
from holdfast.model.explained_error import masked_message
from holdfast.model.named_tuple import NamedTuple
from holdfast.views.value_text import one_line

_CONVERSATIONS: Final = ("messages", "input", "contents", "prompt")
_TEXT_CHARS: Final = 20_000
_TURNS_MAX: Final = 200


class TurnLine(NamedTuple):
    """One message: who said it, the text, the calls it asks for, and the reasoning before it."""

    role: str
    text: str
    calls: tuple[str, ...]
    reasoning: str
    mark: str
    """Why it is special: ``mended``, ``cut off``, ``being written``; empty for most."""
    place: int | None = None
    """Its place among the messages that were sent; None for the answer, and for instructions kept apart."""


class Conversation(NamedTuple):
    """The turns of one model call, its answer last. ``left_out`` older turns are not shown."""

    turns: tuple[TurnLine, ...]
    left_out: int
    mended: tuple[str, ...]
    """What was mended in it before it was sent."""


def conversation(
    request: Any, answer: Any, *, partial: str = "", is_running: bool = False, mended: Iterable[Any] = ()
) -> Conversation:
    """The conversation of a model call; ``partial`` is what arrived of an answer that has not ended."""
    system, messages = _system_of(request), messages_of(request)
    shown = messages[-_TURNS_MAX:]
    repairs = tuple(map(_repair, mended))
    first = len(messages) - len(shown)
    turns = [*system, *(_turn(one, repairs)._replace(place=n) for n, one in enumerate(shown, first))]
    if answer is not None:
        turns.append(_answered(speech_of(answer), answer))
    elif partial:
        mark = "being written" if is_running else "cut off"
        turns.append(TurnLine("assistant", _cut(partial), (), "", mark))
    return Conversation(tuple(turns), first, repairs)


def _system_of(request: Any) -> list[TurnLine]:
    """The instructions, where a provider keeps them apart from the messages."""
    fields = request if isinstance(request, Mapping) else {}
    found = next((fields[name] for name in ("system", "instructions") if fields.get(name)), None)
    if found is None:
        return []
    text = found if isinstance(found, str) else message_line({"role": "system", "content": found})
    return [TurnLine("system", _cut(text), (), "", "")]


def messages_of(request: Any) -> Sequence[Any]:
    """The messages in a request, in the shape of its client."""
    if isinstance(request, list) and any(role_of(one) for one in request):
        return request
    if not isinstance(request, Mapping):
        return [] if request is None else [request]
    said = next((request[name] for name in _CONVERSATIONS if name in request), None)
    if said is None:
        return [parts(request)]
    return said if isinstance(said, list) else [said]


def _turn(message: Any, repairs: Sequence[str]) -> TurnLine:
    if isinstance(message, str):
        return TurnLine("user", _cut(message), (), "", "")
    role = role_of(message) or ""
    reply = speech_of({"choices": [{"message": message}]}) if role else ModelReply()
    text = "\n\n".join(reply.texts) or ("" if reply.calls else message_line(message))
    mark = "mended" if _is_mended(message, repairs) else ""
    return TurnLine(role or "…", _cut(text), _calls(reply), _cut("\n".join(reply.reasoning)), mark)


def _is_mended(message: Any, repairs: Sequence[str]) -> bool:
    """Whether a message has a result that a call lacked: a repair names the call."""
    if not repairs:
        return False
    return any(text.startswith(f"call {reply.id} ") for reply in read(message).replies for text in repairs)


def _answered(reply: ModelReply, answer: Any) -> TurnLine:
    text = "\n\n".join(reply.texts)
    if not text and not reply.calls:
        text = answer if isinstance(answer, str) else message_line(answer)
    return TurnLine("assistant", _cut(text), _calls(reply), _cut("\n".join(reply.reasoning)), "")


def _calls(reply: ModelReply) -> tuple[str, ...]:
    return tuple(call_text(call.name, call.arguments) for call in reply.calls)


def _repair(repair: Any) -> str:
    text = repair[-1] if isinstance(repair, (list, tuple)) and repair else repair
    return one_line(str(text))


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS else f"{masked_message(text)[:_TEXT_CHARS]}…"
