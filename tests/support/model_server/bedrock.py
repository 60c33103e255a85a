"""Bedrock's Converse, as the provider speaks it: the model in the path, streams as binary frames with checksums."""

import json
import struct
from binascii import crc32
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

from tests.support.model_server.faults import Fault
from tests.support.model_server.frames import Frame, fragments
from tests.support.model_server.request import Asked, Flavour, Malformed, understand
from tests.support.model_server.script import Answer

STREAM: Final = "/converse-stream"
_STRING: Final = 7
_ENDS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
_CODES: Final = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


def model_of(path: str, _: dict[str, Any]) -> str:
    """The model in a path."""
    return unquote(path.split("/")[2])


def understand_converse(path: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a conversation."""
    if not isinstance(body.get("messages"), list):
        raise Malformed("messages: at least one message is required")
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    chat = {
        "model": model_of(path, body),
        "messages": [*system, *body["messages"]],
        "stream": path.endswith(STREAM),
        "max_tokens": (body.get("inferenceConfig") or {}).get("maxTokens"),
    }
    return understand("chat", chat, flavour)


def understand_invoke(path: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a request in the model's own JSON, which is that of Anthropic's messages."""
    return understand("chat", {**body, "model": model_of(path, body), "stream": False}, flavour)


def _usage(answer: Answer) -> dict[str, int]:
    asked, made = answer.asked.prompt_tokens, answer.completion_tokens
    return {"inputTokens": asked, "outputTokens": made, "totalTokens": asked + made}


def _blocks(answer: Answer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.reasoning:
        said = {"text": "".join(answer.reasoning), "signature": "signed"}
        blocks.append({"reasoningContent": {"reasoningText": said}})
    if answer.content:
        blocks.append({"text": answer.content})
    return blocks + [
        {"toolUse": {"toolUseId": call.id, "name": call.name, "input": json.loads(call.arguments)}}
        for call in answer.calls
    ]


def converse(answer: Answer) -> dict[str, Any]:
    """An answer, whole."""
    return {
        "output": {"message": {"role": "assistant", "content": _blocks(answer)}},
        "stopReason": _ENDS.get(answer.finish, answer.finish),
        "usage": _usage(answer),
        "metrics": {"latencyMs": 5},
    }


def invoked(answer: Answer) -> dict[str, Any]:
    """An answer in the model's own JSON."""
    usage = {"input_tokens": answer.asked.prompt_tokens, "output_tokens": answer.completion_tokens}
    content = [{"type": "text", "text": answer.content}]
    return {"type": "message", "role": "assistant", "content": content, "usage": usage}


def events(answer: Answer) -> Iterator[Frame]:
    """An answer as a stream."""
    yield frame("messageStart", {"role": "assistant"})
    index = 0
    if answer.reasoning:
        for token in answer.reasoning:
            yield _delta(index, {"reasoningContent": {"text": token}}, token)
        yield _delta(index, {"reasoningContent": {"signature": "signed"}})
        yield frame("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    if answer.text:
        for token in answer.text:
            yield _delta(index, {"text": token}, token)
        yield frame("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    for call in answer.calls:
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        yield frame("contentBlockStart", {"start": start, "contentBlockIndex": index})
        for piece in fragments(call.arguments):
            yield _delta(index, {"toolUse": {"input": piece}}, piece)
        yield frame("contentBlockStop", {"contentBlockIndex": index})
        index += 1
    yield frame("messageStop", {"stopReason": _ENDS.get(answer.finish, answer.finish)})
    yield frame("metadata", {"usage": _usage(answer), "metrics": {"latencyMs": 5}})


def _delta(index: int, delta: dict[str, Any], text: str = "") -> Frame:
    return frame("contentBlockDelta", {"delta": delta, "contentBlockIndex": index}, text)


def frame(kind: str, payload: dict[str, Any], text: str = "", message: str = "event") -> Frame:
    """A frame: its length and that of its headers, their checksum, the headers, the payload, the checksum of all."""
    names = {f":{message}-type": kind, ":content-type": "application/json", ":message-type": message}
    headers = b"".join(
        struct.pack("!B", len(name))
        + name.encode()
        + struct.pack("!BH", _STRING, len(value))
        + value.encode()
        for name, value in names.items()
    )
    body = json.dumps(payload, ensure_ascii=False).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    whole = prelude + struct.pack("!I", crc32(prelude)) + headers + body
    return Frame(whole + struct.pack("!I", crc32(whole)), text)


def empty(answer: Answer) -> Iterator[Frame]:
    """A message without content, or no answer."""
    assert answer.fault is not None
    nothing = answer._replace(text=[], calls=(), reasoning=[], repeated="", fault=None)
    is_bare = answer.fault.how == "choices"
    if answer.asked.stream:
        yield from () if is_bare else events(nothing)
    else:
        yield Frame(json.dumps({} if is_bare else converse(nothing)).encode())


def refusal(fault: Fault) -> str:
    """The body of a refusal, if the fault has one in JSON."""
    try:
        message = json.loads(fault.body)["error"]["message"]
    except ValueError:
        return fault.body
    return json.dumps({"message": message, "__type": _CODES.get(fault.status, "InternalServerException")})


def error_event(fault: Fault) -> bytes:
    """An error in the middle of a stream."""
    error = json.loads(fault.body)["error"]
    is_request = error["type"] == "invalid_request_error"
    kind = "validationException" if is_request else "internalServerException"
    return frame(kind, {"message": error["message"]}, message="exception").data


BAD_FRAME: Final = b"\0\0\0\x40" + b"\0" * 60
"""A frame whose checksum is wrong."""
