"""The protocols that the provider speaks, each as one row: which paths, and how requests and answers are written."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from tests.support.model_server import bedrock, frames, gemini, messages, ollama_api, responses
from tests.support.model_server.faults import Fault
from tests.support.model_server.frames import Frame, sse
from tests.support.model_server.request import Asked, Flavour, understand
from tests.support.model_server.script import Answer

Understand = Callable[[str, dict[str, Any], Flavour], Asked]
"""Reads a request, from its path and its body."""


def plain_refusal(fault: Fault) -> str:
    """The body of a refusal as OpenAI has it."""
    return fault.body


def plain_error_event(fault: Fault) -> bytes:
    """An error in the middle of a stream, as chat completions have it."""
    return b"data: " + fault.body.encode() + b"\n\n"


class Api(NamedTuple):
    """One protocol."""

    name: str
    takes: Callable[[str], bool]
    """Whether a POST to this path, without its query, is a call of this protocol."""
    understand: Understand
    whole: Callable[[Answer], dict[str, Any]]
    """An answer that is not streamed."""
    frames: Callable[[Answer], Iterator[Frame]]
    """A streamed answer."""
    empty: Callable[[Answer], Iterator[Frame]]
    """An answer with nothing in it; ``answer.fault.how`` is ``choices`` if even the place for it is missing."""
    refusal: Callable[[Fault], str] = plain_refusal
    """The body of a refusal, whose fault has OpenAI's."""
    error_event: Callable[[Fault], bytes] = plain_error_event
    """An error in the middle of a stream, with its framing."""
    bad_line: bytes = b'data: {"id": "chatcmpl-1", "choi\n\n'
    content_type: str = "text/event-stream; charset=utf-8"
    model_of: Callable[[str, dict[str, Any]], str] = lambda _, body: str(body.get("model"))


def _ends(*suffixes: str) -> Callable[[str], bool]:
    return lambda path: path.endswith(suffixes)


def _chat_empty(answer: Answer) -> Iterator[Frame]:
    nothing, is_bare = nothing_of(answer)
    if answer.asked.stream:
        yield from [sse("[DONE]")] if is_bare else frames.completion_chunks(nothing)
        return
    body = frames.completion(nothing)
    body["choices"][0]["message"]["content"] = None
    yield Frame(json.dumps({**body, **({"choices": []} if is_bare else {})}).encode())


def _responses_empty(answer: Answer) -> Iterator[Frame]:
    nothing, is_bare = nothing_of(answer)
    whole = responses.response(nothing)
    empty = {**whole, "output": [] if is_bare else whole["output"]}
    if answer.asked.stream:
        kind = "response.completed"
        yield sse({"type": kind, "sequence_number": 0, "response": empty}, kind)
    else:
        yield Frame(json.dumps(empty).encode())


def nothing_of(answer: Answer) -> tuple[Answer, bool]:
    """The answer without content, and whether even the place for it is missing."""
    assert answer.fault is not None
    return answer._replace(
        text=[], calls=(), reasoning=[], repeated="", fault=None
    ), answer.fault.how == "choices"


def _responses_error(fault: Fault) -> bytes:
    error = json.loads(fault.body)["error"]
    told = {"type": "error", "code": error["type"], "message": error["message"], "param": None}
    return b"event: error\ndata: " + json.dumps({**told, "sequence_number": 99}).encode() + b"\n\n"


def _understand(name: str, _: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    return understand(name, body, flavour)


APIS: Final = (
    Api(
        "chat",
        _ends("/v1/chat/completions", "/v1/agents/completions", "/v1/fim/completions"),
        partial(_understand, "chat"),
        frames.completion,
        frames.completion_chunks,
        _chat_empty,
    ),
    Api(
        "responses",
        _ends("/v1/responses"),
        partial(_understand, "responses"),
        responses.response,
        responses.response_events,
        _responses_empty,
        error_event=_responses_error,
    ),
    Api(
        "messages",
        messages.takes,
        messages.understand,
        messages.message,
        messages.events,
        messages.empty,
        messages.refusal,
        messages.error_event,
        b'event: content_block_delta\ndata: {"type": "content_blo\n\n',
    ),
    Api(
        "bedrock",
        _ends("/converse", bedrock.STREAM),
        bedrock.understand_converse,
        bedrock.converse,
        bedrock.events,
        bedrock.empty,
        bedrock.refusal,
        bedrock.error_event,
        bedrock.BAD_FRAME,
        "application/vnd.amazon.eventstream",
        bedrock.model_of,
    ),
    Api(
        "bedrock-invoke",
        _ends("/invoke"),
        bedrock.understand_invoke,
        bedrock.invoked,
        bedrock.events,
        bedrock.empty,
        bedrock.refusal,
        model_of=bedrock.model_of,
    ),
    Api(
        "gemini",
        _ends(":generateContent", gemini.STREAM),
        gemini.understand_contents,
        gemini.response,
        gemini.response_chunks,
        gemini.empty,
        gemini.refusal,
        gemini.error_event,
        b'data: {"candidates": [{"con\n\n',
        model_of=gemini.model_of,
    ),
    Api(
        "gemini-embedding",
        _ends(":embedContent", ":batchEmbedContents"),
        gemini.understand_embedding,
        gemini.embedding,
        gemini.response_chunks,
        gemini.empty,
        gemini.refusal,
        model_of=gemini.model_of,
    ),
    *(
        Api(
            name,
            _ends(path),
            understand_,
            whole,
            ollama_api.lines,
            ollama_api.empty,
            ollama_api.refusal,
            ollama_api.error_event,
            b'{"model": "m", "mess\n',
            "application/x-ndjson",
        )
        for name, path, understand_, whole in (
            ("ollama-chat", ollama_api.CHAT, ollama_api.understand_chat, ollama_api.whole),
            ("ollama-generate", ollama_api.GENERATE, ollama_api.understand_generate, ollama_api.whole),
            ("ollama-embed", "/api/embed", ollama_api.understand_embed, ollama_api.embed),
            ("ollama-embeddings", "/api/embeddings", ollama_api.understand_embed, ollama_api.embeddings),
        )
    ),
)

_EMBEDDINGS: Final = "/v1/embeddings"


def api_of(path: str) -> Api | None:
    """The protocol of a POST to this path."""
    bare = path.partition("?")[0]
    return next((api for api in APIS if api.takes(bare)), None)


def is_embedding(path: str) -> bool:
    """Whether vectors are asked for, in OpenAI's protocol."""
    return path.endswith(_EMBEDDINGS)


def is_call(path: str) -> bool:
    """Whether a request to this path is one for an answer."""
    return is_embedding(path) or api_of(path) is not None
