"""Gemini's protocol, as the provider speaks it: the model and the verb are in the path, a streamed piece is a response."""

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.support.model_server.faults import Fault
from tests.support.model_server.frames import Frame, sse
from tests.support.model_server.generated_text import fingerprint
from tests.support.model_server.request import Asked, Flavour, Malformed, understand
from tests.support.model_server.script import Answer

STREAM: Final = ":streamGenerateContent"
_ENDS: Final = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"}
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
DIMENSIONS: Final = 8


def model_of(path: str, _: dict[str, Any]) -> str:
    """The model in a path."""
    return path.partition("?")[0].rpartition("/")[2].partition(":")[0]


def understand_contents(path: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a request for an answer."""
    contents = body.get("contents")
    if not isinstance(contents, list):
        raise Malformed("* GenerateContentRequest.contents: contents is not specified")
    system = body.get("systemInstruction")
    messages = [
        _message(content) for content in ([{**system, "role": "system"}] if system else []) + contents
    ]
    limit = (body.get("generationConfig") or {}).get("maxOutputTokens")
    chat = {
        "model": model_of(path, body),
        "messages": messages,
        "stream": path.partition("?")[0].endswith(STREAM),
        "max_tokens": limit,
    }
    return understand("chat", chat, flavour)


def _message(content: dict[str, Any]) -> dict[str, Any]:
    role = {"model": "assistant"}.get(content.get("role", "user"), content.get("role", "user"))
    parts = content.get("parts") or []
    if any("functionResponse" in part for part in parts):
        return {"role": "tool", "content": json.dumps([part.get("functionResponse") for part in parts])}
    texts = [part.get("text") or json.dumps(part.get("functionCall")) for part in parts]
    return {"role": role, "content": "".join(texts)}


def _parts(answer: Answer) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if answer.reasoning:
        parts.append({"text": "".join(answer.reasoning), "thought": True})
    if answer.content:
        parts.append({"text": answer.content})
    return parts + [_call(call) for call in answer.calls]


def _call(call: Any) -> dict[str, Any]:
    given = {"name": call.name, "args": json.loads(call.arguments)}
    return {"functionCall": given, "thoughtSignature": "c2lnbmVk"}


def _response(answer: Answer, parts: list[dict[str, Any]], *, ended: bool, made: int) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    if ended:
        candidate["finishReason"] = _ENDS.get(answer.finish, answer.finish)
    usage = {
        "promptTokenCount": answer.asked.prompt_tokens,
        "candidatesTokenCount": made - len(answer.reasoning),
        "thoughtsTokenCount": len(answer.reasoning),
        "totalTokenCount": answer.asked.prompt_tokens + made,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": answer.asked.model,
        "responseId": answer.id,
    }


def response(answer: Answer) -> dict[str, Any]:
    """A response, whole."""
    return _response(answer, _parts(answer), ended=True, made=answer.completion_tokens)


def response_chunks(answer: Answer) -> Iterator[Frame]:
    """A response as a stream."""
    made = len(answer.reasoning)
    for token in answer.reasoning:
        yield sse(_response(answer, [{"text": token, "thought": True}], ended=False, made=made), text=token)
    for token in answer.text:
        made += 1
        yield sse(_response(answer, [{"text": token}], ended=False, made=made), text=token)
    for call in answer.calls:
        yield sse(_response(answer, [_call(call)], ended=False, made=made), text=call.arguments)
    yield sse(_response(answer, [], ended=True, made=answer.completion_tokens))


def empty(answer: Answer) -> Iterator[Frame]:
    """A candidate without content, or no candidate."""
    assert answer.fault is not None
    nothing = answer._replace(text=[], calls=(), reasoning=[], repeated="", fault=None)
    body = response(nothing)
    body["candidates"] = [] if answer.fault.how == "choices" else body["candidates"]
    yield sse(body) if answer.asked.stream else Frame(json.dumps(body).encode())


def refusal(fault: Fault) -> str:
    """The body of a refusal, if the fault has one in JSON."""
    try:
        message = json.loads(fault.body)["error"]["message"]
    except ValueError:
        return fault.body
    code = fault.status or 503
    told = {"code": code, "message": message, "status": _STATUSES.get(code, "INTERNAL")}
    return json.dumps({"error": told})


def error_event(fault: Fault) -> bytes:
    """An error in the middle of a stream."""
    return b"data: " + refusal(fault).encode() + b"\n\n"


def understand_embedding(path: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a request for vectors: each content is a message."""
    contents = [one.get("content") for one in body["requests"]] if "requests" in body else [body["content"]]
    messages = [{"role": "user", "content": _message(content)["content"]} for content in contents]
    return understand("chat", {"model": model_of(path, body), "messages": messages}, flavour)


def embedding(answer: Answer) -> dict[str, Any]:
    """Vectors that the texts decide."""
    return {"embeddings": [{"values": vector_of(text)} for _, text in answer.asked.messages]}


def vector_of(text: str) -> list[float]:
    """A vector that the text decides."""
    return [int(digit, 16) / 16 for digit in fingerprint(text)[:DIMENSIONS]]
