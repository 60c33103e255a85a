"""Answers as the frames that go over the wire: chat completions and embeddings. Pure, no I/O.

A frame is what is sent in one piece, and how many tokens it carries, so that a fault can strike after the n-th.
"""

import base64
import json
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tests.support.model_server.generated_text import fingerprint
from tests.support.model_server.script import Answer

CREATED: Final = 1_750_000_000
"""A provider without a clock: its answers are the same every day."""
FRAGMENT: Final = 7
"""The characters of a tool call's arguments that one chunk carries: JSON is cut where it hurts."""


class Frame(NamedTuple):
    """A piece of a body, and the text that it carries, if any."""

    data: bytes
    text: str = ""

    @property
    def is_token(self) -> bool:
        return bool(self.text)


def sse(data: Any, event: str = "", text: str = "") -> Frame:
    """A frame of server-sent events."""
    written = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {event}\n" if event else ""
    return Frame(f"{head}data: {written}\n\n".encode(), text)


def fragments(arguments: str) -> list[str]:
    """The arguments of a call in pieces."""
    return [arguments[at : at + FRAGMENT] for at in range(0, len(arguments), FRAGMENT)]


def usage_of(answer: Answer) -> dict[str, Any]:
    """The usage as chat completions tell it."""
    asked, made = answer.asked.prompt_tokens, answer.completion_tokens
    return {
        "prompt_tokens": asked,
        "completion_tokens": made,
        "total_tokens": asked + made,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": len(answer.reasoning)},
    }


def completion(answer: Answer) -> dict[str, Any]:
    """A chat completion, whole."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.reasoning:
        message["reasoning_content"] = "".join(answer.reasoning)
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": "chat.completion",
        "created": CREATED,
        "model": answer.asked.model,
        "choices": [choice],
        "usage": usage_of(answer),
        "system_fingerprint": "fp_scripted",
    }


def completion_chunks(answer: Answer) -> Iterator[Frame]:
    """A chat completion as a stream, down to the last line."""

    def chunk(choices: list[Any], text: str = "", **more: Any) -> Frame:
        body = {
            "id": f"chatcmpl-{answer.id}",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": answer.asked.model,
            "choices": choices,
            "system_fingerprint": "fp_scripted",
            **({"usage": None} if answer.asked.usage else {}),
            **more,
        }
        return sse(body, text=text)

    def delta(text: str = "", **fields: Any) -> Frame:
        return chunk([{"index": 0, "delta": fields, "logprobs": None, "finish_reason": None}], text)

    yield delta(role="assistant", content=None if answer.calls and not answer.text else "")
    for token in answer.reasoning:
        yield delta(token, reasoning_content=token)
    for token in answer.text:
        yield delta(token, content=token)
    for index, call in enumerate(answer.calls):
        head = {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        if answer.asked.is_mistral:
            head["function"] = {"name": call.name, "arguments": call.arguments}
            yield delta(call.arguments, tool_calls=[head])
            continue
        yield delta(tool_calls=[head])
        for piece in fragments(call.arguments):
            yield delta(piece, tool_calls=[{"index": index, "function": {"arguments": piece}}])
    told: dict[str, Any] = {"usage": usage_of(answer)} if answer.asked.is_mistral else {}
    yield chunk([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": answer.finish}], "", **told)
    if answer.asked.usage:
        yield chunk([], usage=usage_of(answer))
    yield sse("[DONE]")


DIMENSIONS: Final = 8


def embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """Vectors that the texts decide; in base64 where asked for, as the client does by itself."""
    given = body.get("input", "")
    texts = given if isinstance(given, list) else [given]
    data = []
    for index, text in enumerate(texts):
        digits = fingerprint(text)
        vector = [int(digit, 16) / 16 for digit in digits[:DIMENSIONS]]
        packed = base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *vector)).decode()
        written: Any = packed if body.get("encoding_format") == "base64" else vector
        data.append({"object": "embedding", "index": index, "embedding": written})
    tokens = sum(1 + len(str(text)) // 4 for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {
        "id": fingerprint(texts),
        "object": "list",
        "data": data,
        "model": body.get("model", ""),
        "usage": usage,
    }
