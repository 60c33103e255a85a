"""Makes deltas from what providers stream, and answers in the providers' own shapes from partial answers.

It knows chat completions (of OpenAI and compatible servers) and the responses API, as plain dicts. Fields
that a provider adds to a message are kept under their own names.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.core.llm.streams.partial_answer import (
    Partial,
    calls_as_written,
    complete_calls,
    is_whole,
)

_REASONING: Final = ("reasoning_content", "reasoning")
_CHAT_FACTS: Final = ("id", "model", "created", "system_fingerprint", "service_tier", "usage", "error")
_KNOWN: Final = {"content", "refusal", "role", "tool_calls", "function_call", *_REASONING}
_PARTS: Final = "content.parts"
"""Parts of a content that are neither text nor thoughts."""
_RESPONSE_TEXTS: Final = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
}
_RESPONSE_ENDS: Final = {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}


# -- chat completions ----------------------------------------------------------------------------------------


def delta_of_chat_chunk(chunk: Mapping[str, Any]) -> dict[str, Any]:
    """What a ``chat.completion.chunk`` adds."""
    delta: dict[str, Any] = {}
    facts = {name: chunk[name] for name in _CHAT_FACTS if chunk.get(name) is not None}
    for choice in chunk.get("choices") or ():
        added = _delta_of_choice(choice)
        index = choice.get("index") or 0
        if index == 0:
            facts |= added.pop("facts", {})
            delta |= added
        elif added:
            delta.setdefault("choices", []).append({"index": index, **added})
    if facts:
        delta["facts"] = facts
    return delta


def _delta_of_choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    delta = choice.get("delta") or {}
    added: dict[str, Any] = {}
    facts = {name: delta[name] for name in ("role",) if delta.get(name)}
    if isinstance(delta.get("content"), list):
        added |= _delta_of_parts(delta["content"])
        facts["in_parts"] = True
    _put_text(added, "text", delta.get("content"))
    _put_text(added, "refusal", delta.get("refusal"))
    field = next((name for name in _REASONING if isinstance(delta.get(name), str) and delta[name]), None)
    if field is not None:
        _put_text(added, "reasoning", delta[field])
        facts["reasoning_field"] = field
    calls = [_fragment(call) for call in delta.get("tool_calls") or ()]
    if delta.get("function_call"):
        calls.append({"index": 0, "type": "function_call", **_named(delta["function_call"])})
    if calls:
        added["calls"] = calls
    more = {name: [value] for name, value in delta.items() if name not in _KNOWN and value is not None}
    if more:
        added["more"] = {**added.get("more", {}), **more}
    if choice.get("logprobs"):
        added["logprobs"] = {name: entries for name, entries in choice["logprobs"].items() if entries}
    if choice.get("finish_reason") is not None:
        facts["finish_reason"] = choice["finish_reason"]
    if facts:
        added["facts"] = facts
    return added


def _delta_of_parts(parts: Sequence[Any]) -> dict[str, Any]:
    """What a content adds that is a list of parts, as models of Mistral that think have it."""
    added: dict[str, Any] = {}
    found: dict[str, list[str]] = {"text": [], "reasoning": []}
    others: list[Any] = []
    for part in parts:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "text":
            found["text"].append(part.get("text") or "")
        elif kind == "thinking":
            found["reasoning"] += [one.get("text") or "" for one in part.get("thinking") or ()]
        else:
            others.append(part)
    for name, texts in found.items():
        _put_text(added, name, "".join(texts))
    return added | ({"more": {_PARTS: [others]}} if others else {})


def _parts_of(partial: Partial) -> list[Any]:
    """The content as a list of parts: its thoughts, its text, and what else there is."""
    thinking = [{"type": "text", "text": partial.reasoning}]
    thoughts = [{"type": "thinking", "thinking": thinking}] if partial.reasoning else []
    texts = [{"type": "text", "text": partial.text}] if partial.text else []
    return [*thoughts, *texts, *(partial.more[_PARTS][-1] if _PARTS in partial.more else ())]


def _put_text(delta: dict[str, Any], name: str, text: Any) -> None:
    if isinstance(text, str) and text:
        # Half of a surrogate pair cannot be encoded. No server that follows the standards sends one.
        delta[name] = text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _fragment(call: Mapping[str, Any]) -> dict[str, Any]:
    fragment: dict[str, Any] = {"index": call["index"]} if call.get("index") is not None else {}
    if call.get("id"):
        fragment["id"] = call["id"]
    if call.get("type") == "custom":
        fragment["type"] = "custom"
    return fragment | _named(call.get("function") or call.get("custom") or {})


def _named(function: Mapping[str, Any]) -> dict[str, Any]:
    given = {"name": function.get("name"), "arguments": function.get("arguments") or function.get("input")}
    named: dict[str, Any] = {}
    for key, value in given.items():
        _put_text(named, key, value)
    return named


def chat_completion_of(partial: Partial) -> dict[str, Any]:
    """The answer as a ``chat.completion``.

    If it was cut off, it has ``"finish_reason": "interrupted"`` and only those tool calls that may be
    executed.
    """
    facts = partial.facts
    choices = [_choice(0, partial)] + [
        _choice(index, partial.others[index]) for index in sorted(partial.others)
    ]
    answer: dict[str, Any] = {
        "id": facts.get("id", ""),
        "object": "chat.completion",
        "created": facts.get("created", 0),
        "model": facts.get("model", ""),
        "choices": choices,
    }
    return answer | {name: facts[name] for name in _CHAT_FACTS if name in facts}


def _choice(index: int, partial: Partial) -> dict[str, Any]:
    whole = is_whole(partial)
    calls = partial.calls if whole else complete_calls(partial)
    message: dict[str, Any] = {
        "role": partial.facts.get("role", "assistant"),
        "content": partial.text if partial.text or not (calls or partial.refusal) else None,
        "refusal": partial.refusal or None,
        # There is one piece, unless the type of the field changed within the stream.
        **{name: pieces[-1] for name, pieces in partial.more.items() if name != _PARTS},
    }
    if partial.facts.get("in_parts"):
        message["content"] = _parts_of(partial)
    elif partial.reasoning:
        message[partial.facts.get("reasoning_field", "reasoning_content")] = partial.reasoning
    legacy = [call for call in calls if call.type == "function_call"]
    others = [call for call in calls if call.type != "function_call"]
    if legacy:
        message["function_call"] = {"name": legacy[0].name, "arguments": legacy[0].arguments}
    if others:
        message["tool_calls"] = calls_as_written(others)
    return {
        "index": index,
        "message": message,
        "logprobs": {"content": None, "refusal": None, **partial.logprobs} if partial.logprobs else None,
        "finish_reason": partial.facts["finish_reason"] if whole else "interrupted",
    }


def chunks_of_completion(completion: Mapping[str, Any], *, usage: bool = False) -> list[dict[str, Any]]:
    """The chunks of a stream of this ``chat.completion``: each answer in one piece, its end, the usage.

    Each tool call is a chunk of its own, as providers send them: there are clients that read only one of a
    chunk.
    """
    head = {name: value for name, value in completion.items() if name not in {"choices", "usage", "object"}}
    head["object"] = "chat.completion.chunk"
    chunks: list[dict[str, Any]] = []
    for choice in completion.get("choices") or ():
        delta = {name: value for name, value in choice["message"].items() if value is not None}
        calls = [{"tool_calls": [{"index": n, **call}]} for n, call in enumerate(delta.pop("tool_calls", ()))]
        place = {"index": choice.get("index", 0), "finish_reason": None, "logprobs": None}
        pieces = [{**place, "delta": delta, "logprobs": choice.get("logprobs")}]
        pieces += [{**place, "delta": call} for call in calls]
        pieces.append({**place, "delta": {}, "finish_reason": choice.get("finish_reason")})
        chunks += [{**head, "choices": [piece]} for piece in pieces]
    if usage:
        chunks.append({**head, "choices": [], "usage": completion.get("usage")})
    return chunks


# -- responses -----------------------------------------------------------------------------------------------


def delta_of_response_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """What an event of a responses stream adds; empty if it adds nothing."""
    kind = str(event.get("type", ""))
    delta: dict[str, Any] = {}
    if kind in _RESPONSE_TEXTS:
        _put_text(delta, _RESPONSE_TEXTS[kind], event.get("delta"))
    elif kind in {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}:
        fragment: dict[str, Any] = {"index": event.get("output_index", 0)}
        _put_text(fragment, "arguments", event.get("delta"))
        delta["calls"] = [fragment]
    elif kind in {"response.output_item.added", "response.output_item.done"}:
        delta = _delta_of_item(event, done=kind.endswith("done"))
    elif kind in _RESPONSE_ENDS:
        delta["facts"] = {**_response_facts(event), **_response_end(event.get("response") or {}, kind)}
    elif isinstance(event.get("response"), Mapping):
        delta["facts"] = _response_facts(event)
    elif kind == "error":
        delta["facts"] = {"error": {name: value for name, value in event.items() if name != "type"}}
    return delta


def _response_facts(event: Mapping[str, Any]) -> dict[str, Any]:
    response = event.get("response") or {}
    facts = {
        name: response[name] for name in ("id", "model", "usage", "error") if response.get(name) is not None
    }
    if response.get("created_at") is not None:
        facts["created"] = response["created_at"]
    return facts


def _response_end(response: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """How the response ended, as the ``finish_reason`` of chat completions, and the whole response."""
    status = response.get("status") or kind.removeprefix("response.")
    if status == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason")
        status = "length" if reason in {None, "max_output_tokens"} else reason
    elif status == "completed":
        kinds = {item.get("type") for item in response.get("output") or ()}
        status = "tool_calls" if kinds & {"function_call", "custom_tool_call"} else "stop"
    return {"finish_reason": status, "response": dict(response)}


def _delta_of_item(event: Mapping[str, Any], *, done: bool) -> dict[str, Any]:
    item = event.get("item") or {}
    delta: dict[str, Any] = {"items": [dict(item)]} if done else {}
    if item.get("type") in {"function_call", "custom_tool_call"}:
        fragment: dict[str, Any] = {"index": event.get("output_index", 0)}
        _put_text(fragment, "id", item.get("call_id"))
        _put_text(fragment, "name", item.get("name"))
        if item["type"] == "custom_tool_call":
            fragment["type"] = "custom"
        if done:  # the arguments once more; some servers send them only here
            fragment |= {"arguments": item.get("arguments") or item.get("input") or "", "whole": True}
        delta["calls"] = [fragment]
    return delta


def response_of(partial: Partial) -> dict[str, Any]:
    """The answer as a ``response``: the provider's own if it ended, else an incomplete one."""
    if "response" in partial.facts:
        return dict(partial.facts["response"])
    facts = partial.facts
    answer = {
        "id": facts.get("id", ""),
        "object": "response",
        "created_at": facts.get("created", 0),
        "model": facts.get("model", ""),
        "status": "incomplete",
        "incomplete_details": {"reason": "interrupted"},
        "error": None,
        "output": [*_finished_items(partial.items), *_message_items(partial), *_call_items(partial)],
    }
    return answer | ({"usage": facts["usage"]} if "usage" in facts else {})


def text_of(response: Mapping[str, Any]) -> str:
    """The text of a response."""
    items = [item for item in response.get("output") or () if item.get("type") == "message"]
    parts = [part for item in items for part in item.get("content") or ()]
    return "".join(part.get("text") or "" for part in parts if part.get("type") == "output_text")


def agreed(response: dict[str, Any], partial: Partial) -> dict[str, Any]:
    """The response with the text that was streamed, if it ends with another one.

    The program has read and used the pieces: a replay must not give it others.
    """
    if text_of(response).startswith(partial.text):
        return response
    said = [{**item, "status": "completed"} for item in _message_items(partial)]
    output = [item for item in response.get("output") or () if item.get("type") != "message"]
    if not output:
        return {**response, "output": [*_finished_items(partial.items), *said, *_call_items(partial)]}
    calls = [item for item in output if str(item.get("type", "")).endswith("_call")]
    return {**response, "output": [*(item for item in output if item not in calls), *said, *calls]}


def _finished_items(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The finished items except messages and calls, which ``response_of`` makes from the partial answer."""
    return [
        item for item in items if item.get("type") not in {"message", "function_call", "custom_tool_call"}
    ]


def _message_items(partial: Partial) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if partial.text:
        content.append({"type": "output_text", "text": partial.text, "annotations": []})
    if partial.refusal:
        content.append({"type": "refusal", "refusal": partial.refusal})
    if not content:
        return []
    known = next((item for item in partial.items if item.get("type") == "message"), {})
    message = {"type": "message", "role": "assistant", "status": "incomplete", "content": content}
    return [{"id": known.get("id", f"msg_{partial.facts.get('id', '')}"), **message}]


def _call_items(partial: Partial) -> list[dict[str, Any]]:
    return [
        {
            "type": "custom_tool_call" if call.type == "custom" else "function_call",
            "call_id": call.id,
            "name": call.name,
            "input" if call.type == "custom" else "arguments": call.arguments,
            "status": "completed",
        }
        for call in complete_calls(partial)
    ]
