"""Anthropic's messages: requests as strictly read as the real API reads them, the message, and the events of its stream."""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

from tests.support.model_server.faults import Fault
from tests.support.model_server.frames import Frame, fragments, sse
from tests.support.model_server.generated_text import Directives, fingerprint
from tests.support.model_server.request import CONTINUE, Asked, Flavour, Malformed
from tests.support.model_server.script import Answer

FIELDS: Final = frozenset(
    "model messages max_tokens system stream temperature top_k top_p stop_sequences tools tool_choice thinking metadata "
    "service_tier container output_config mcp_servers context_management".split()
)
ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
STOPS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def takes(path: str) -> bool:
    """Whether this is the address of messages."""
    return path.endswith("/v1/messages")


def understand(_: str, body: dict[str, Any], flavour: Flavour) -> Asked:
    """Read a request. Malformed where the real API refuses it."""
    unknown = body.keys() - FIELDS
    if unknown:
        raise Malformed(f"{min(unknown)}: Extra inputs are not permitted")
    if not isinstance(body.get("max_tokens"), int):
        raise Malformed("max_tokens: Field required")
    budget = (body.get("thinking") or {}).get("budget_tokens")
    if budget is not None and budget >= body["max_tokens"]:
        raise Malformed("`max_tokens` must be greater than `thinking.budget_tokens`.")
    messages = [(str(message.get("role")), _text(message.get("content"))) for message in body["messages"]]
    _check(body, messages)
    begun = ""
    if messages[-1][0] == "assistant":
        if "claude-3" not in str(body.get("model")) or budget is not None:
            raise Malformed("This model does not support assistant message prefill.")
        begun = messages.pop()[1]
        if begun != begun.rstrip():
            raise Malformed("messages: final assistant content cannot end with trailing whitespace")
    elif len(messages) > 2 and messages[-2][0] == "assistant" and CONTINUE.search(messages[-1][1]):
        begun, messages = messages[-2][1], messages[:-2]
    system = [("system", _text(body["system"]))] if body.get("system") else []
    users = [text for role, text in messages if role == "user"]
    return Asked(
        api="messages",
        model=str(body.get("model", "")),
        messages=(*system, *messages),
        begun=begun,
        seed=fingerprint([*system, *messages]),
        stream=bool(body.get("stream")),
        usage=True,
        tokens_max=body["max_tokens"],
        directives=Directives.read(users[-1] if users else ""),
    )


def _check(body: dict[str, Any], messages: list[tuple[str, str]]) -> None:
    if not messages:
        raise Malformed("messages: at least one message is required")
    # The agent SDK of Anthropic writes what changes around a conversation as messages of the system, after the first.
    if {role for role, _ in messages} - {"user", "assistant", "system"} or messages[0][0] == "system":
        raise Malformed("messages: Unexpected role")
    asked: set[str] = set()
    for index, message in enumerate(body["messages"]):
        parts = [part for part in message["content"] if isinstance(part, dict)]
        if any(part.get("type") == "text" and not part.get("text") for part in parts):
            raise Malformed("messages: text content blocks must be non-empty")
        if any(part.get("type") == "thinking" and not part.get("signature") for part in parts):
            raise Malformed(f"messages.{index}: Invalid `signature` in `thinking` block")
        answered = {part["tool_use_id"] for part in parts if part.get("type") == "tool_result"}
        if asked - answered:
            raise Malformed(f"messages.{index - 1}: `tool_use` ids without `tool_result` blocks")
        if answered - asked:
            raise Malformed(f"messages.{index}: unexpected `tool_use_id` in `tool_result` blocks")
        asked = {part["id"] for part in parts if part.get("type") == "tool_use"}
    if asked:
        raise Malformed("messages: `tool_use` ids without `tool_result` blocks")


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return str(content)
    texts = []
    for part in content:
        if part.get("type") == "tool_result":
            texts.append(_text(part.get("content", "")))
        elif part.get("type") == "tool_use":
            texts.append(f"{part['name']}({json.dumps(part['input'])})")
        else:
            texts.append(str(part.get("text", "")))
    return "".join(texts)


def message(answer: Answer) -> dict[str, Any]:
    """A message, whole."""
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.asked.model,
        "content": [*_thinking(answer), *_said(answer), *_calls(answer)],
        "stop_reason": STOPS.get(answer.finish, answer.finish),
        "stop_sequence": None,
        "usage": _usage(answer, answer.completion_tokens),
    }


def told_events(told: list[dict[str, Any]]) -> Iterator[Frame]:
    """Events that a test has written itself."""
    for event in told:
        yield sse(event, event.get("type", ""), event.get("delta", {}).get("text", ""))


def events(answer: Answer) -> Iterator[Frame]:
    """A message as a stream."""

    def event(kind: str, carries: str = "", /, **fields: Any) -> Frame:
        return sse({"type": kind, **fields}, kind, carries)

    def delta(kind: str, index: int, carries: str, **fields: Any) -> Frame:
        return event("content_block_delta", carries, index=index, delta={"type": f"{kind}_delta", **fields})

    whole = message(answer)
    begun = {**whole, "content": [], "stop_reason": None, "usage": _usage(answer, 1)}
    yield event("message_start", message=begun)
    yield event("ping")
    for index, block in enumerate(whole["content"]):
        yield event("content_block_start", index=index, content_block=_begun(block))
        if block["type"] == "thinking":
            for token in answer.reasoning:
                yield delta("thinking", index, token, thinking=token)
            yield delta("signature", index, "", signature=block["signature"])
        elif block["type"] == "text":
            for token in answer.text:
                yield delta("text", index, token, text=token)
        else:
            call = answer.calls[index - len(whole["content"])]
            yield delta("input_json", index, "", partial_json="")
            for piece in fragments(call.arguments):
                yield delta("input_json", index, piece, partial_json=piece)
        yield event("content_block_stop", index=index)
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=stop, usage={"output_tokens": answer.completion_tokens})
    yield event("message_stop")


def empty(answer: Answer) -> Iterator[Frame]:
    """A message that says nothing; or, in a stream, none at all, and without it, an object without content."""
    assert answer.fault is not None
    is_bare = answer.fault.how == "choices"
    nothing = answer._replace(text=[], calls=(), reasoning=[], repeated="", fault=None)
    if answer.asked.stream:
        yield from [sse({"type": "ping"}, "ping")] if is_bare else events(nothing)
        return
    whole = message(nothing)
    if is_bare:
        del whole["content"]
    yield Frame(json.dumps(whole).encode())


def refusal(fault: Fault) -> str:
    """The body of a refusal; a page of HTML stays one."""
    try:
        told = json.loads(fault.body)["error"]["message"]
    except ValueError:
        return fault.body
    return _error(ERRORS.get(fault.status, "api_error"), told)


def error_event(fault: Fault) -> bytes:
    """An error in the middle of a stream."""
    told = json.loads(fault.body)["error"]
    kind = "overloaded_error" if told["type"] == "server_error" else told["type"]
    return b"event: error\ndata: " + _error(kind, told["message"]).encode() + b"\n\n"


def _error(kind: str, told: str) -> str:
    return json.dumps({"type": "error", "error": {"type": kind, "message": told}, "request_id": "req_1"})


def _usage(answer: Answer, made: int) -> dict[str, Any]:
    return {
        "input_tokens": answer.asked.prompt_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": made,
        "service_tier": "standard",
    }


def _thinking(answer: Answer) -> list[dict[str, Any]]:
    if not answer.reasoning:
        return []
    signature = base64.b64encode(answer.id.encode()).decode()
    return [{"type": "thinking", "thinking": "".join(answer.reasoning), "signature": signature}]


def _said(answer: Answer) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "".join(answer.text)}] if answer.text else []


def _calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)}
        for call in answer.calls
    ]


def _input(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def _begun(block: dict[str, Any]) -> dict[str, Any]:
    blank: dict[str, dict[str, Any]] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    return {**block, **blank[block["type"]]}
