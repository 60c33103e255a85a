"""Ollama's own protocol, as the provider speaks it: lines of JSON, streamed unless the request says otherwise."""

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.support.model_server.faults import Fault
from tests.support.model_server.frames import Frame
from tests.support.model_server.gemini import vector_of
from tests.support.model_server.request import Asked, Flavour, Malformed, understand
from tests.support.model_server.script import Answer

CHAT: Final = "/api/chat"
GENERATE: Final = "/api/generate"


def understand_chat(_: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a chat."""
    return _understood("ollama-chat", body, body.get("messages"), flavour)


def understand_generate(_: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a prompt, which is one turn."""
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    said = [*system, {"role": "user", "content": body.get("prompt", "")}]
    return _understood("ollama-generate", body, said, flavour)


def _understood(api: str, body: dict[str, Any], messages: Any, flavour: Flavour) -> Asked:
    if not isinstance(messages, list):
        raise Malformed("json: cannot unmarshal into Go struct field ChatRequest.messages")
    limit = (body.get("options") or {}).get("num_predict")
    stream = body.get("stream") is not False
    chat = {"model": body.get("model"), "messages": messages, "stream": stream, "max_tokens": limit}
    return understand("chat", chat, flavour)._replace(api=api)


def _line(answer: Answer, text: str, thinking: str = "", calls: Any = None, **more: Any) -> dict[str, Any]:
    head = {"model": answer.asked.model, "created_at": "2026-01-01T00:00:00.000000Z"}
    said: dict[str, Any] = {"thinking": thinking} if thinking else {}
    if calls:
        said["tool_calls"] = calls
    if answer.asked.api == "ollama-generate":
        return {**head, "response": text, **said, "done": False, **more}
    return {**head, "message": {"role": "assistant", "content": text, **said}, "done": False, **more}


def _end(answer: Answer) -> dict[str, Any]:
    return {
        "done": True,
        "done_reason": "length" if answer.finish == "length" else "stop",
        "total_duration": 5,
        "load_duration": 1,
        "prompt_eval_count": answer.asked.prompt_tokens,
        "prompt_eval_duration": 2,
        "eval_count": answer.completion_tokens,
        "eval_duration": 2,
    }


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"function": {"name": call.name, "arguments": json.loads(call.arguments)}} for call in answer.calls
    ]


def whole(answer: Answer) -> dict[str, Any]:
    """An answer, whole."""
    return _line(answer, answer.content or "", "".join(answer.reasoning), _calls(answer), **_end(answer))


def lines(answer: Answer) -> Iterator[Frame]:
    """An answer as a stream."""
    for token in answer.reasoning:
        yield _frame(_line(answer, "", token), token)
    for token in answer.text:
        yield _frame(_line(answer, token), token)
    for call in _calls(answer):
        yield _frame(_line(answer, "", calls=[call]), json.dumps(call["function"]["arguments"]))
    yield _frame(_line(answer, "", **_end(answer)))


def _frame(data: dict[str, Any], text: str = "") -> Frame:
    return Frame(json.dumps(data, ensure_ascii=False).encode() + b"\n", text)


def empty(answer: Answer) -> Iterator[Frame]:
    """A message without content, or no message."""
    assert answer.fault is not None
    body = whole(answer._replace(text=[], calls=(), reasoning=[], repeated="", fault=None))
    if answer.fault.how == "choices":
        body = {name: body[name] for name in ("model", "created_at")}
    if "done" in body or not answer.asked.stream:  # no line at all is the emptiest stream
        yield _frame(body)


def refusal(fault: Fault) -> str:
    """The body of a refusal, if the fault has one in JSON."""
    try:
        return json.dumps({"error": json.loads(fault.body)["error"]["message"]})
    except ValueError:
        return fault.body


def error_event(fault: Fault) -> bytes:
    """An error in the middle of a stream."""
    return refusal(fault).encode() + b"\n"


def understand_embed(_: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a request for vectors: each text is a message."""
    given = body.get("input", body.get("prompt", ""))
    texts = given if isinstance(given, list) else [given]
    chat = {"model": body.get("model"), "messages": [{"role": "user", "content": text} for text in texts]}
    return understand("chat", chat, flavour)


def embed(answer: Answer) -> dict[str, Any]:
    """Vectors that the texts decide."""
    vectors = [vector_of(text) for _, text in answer.asked.messages]
    counts = {"total_duration": 2, "load_duration": 1, "prompt_eval_count": answer.asked.prompt_tokens}
    return {"model": answer.asked.model, "embeddings": vectors, **counts}


def embeddings(answer: Answer) -> dict[str, Any]:
    """The vector of one text, as earlier versions had it."""
    return {"embedding": vector_of(answer.asked.messages[0][1])}
