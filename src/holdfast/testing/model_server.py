"""A scripted model: an OpenAI-compatible server on 127.0.0.1 that says what a test tells it to.

::

    with ModelServer(["Hello!", ToolCall("pay", {"amount": 3}), Failure(429, retry_after_s=1)]) as model:
        client = holdfast.wrap(openai.OpenAI(base_url=model.base_url, api_key="none", max_retries=0))

It answers chat completions, streamed or not, in the order of its replies, over real HTTP; standard library
only. Without an order it can answer by the request: with ``ModelServer(otherwise=function)``, an agent that
is killed and started again gets the same answers. ``requests`` has what it was asked: a call that Holdfast
answers from the journal never gets here.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Final, Self

from holdfast.model.named_tuple import NamedTuple

_WORDS: Final = 4
"""The characters of a streamed piece."""


class ToolCall(NamedTuple):
    """An answer that calls a tool."""

    name: str
    arguments: Mapping[str, Any]


class Failure(NamedTuple):
    """An answer with an error status."""

    status: int = 500
    retry_after_s: float | None = None


class CutOff(NamedTuple):
    """A streamed answer that breaks off after some pieces; an answer that is not streamed does not come."""

    text: str
    pieces: int = 1


Reply = str | ToolCall | Failure | CutOff


class ModelServer:
    """The server, in a thread of this process, until the block is left."""

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        otherwise: Reply | Callable[[dict[str, Any]], Reply] | None = None,
    ) -> None:
        """Answer with these, one a request; then with ``otherwise``, or with status 500.

        ``otherwise`` may be a function of the request.
        """
        self.requests: list[dict[str, Any]] = []
        """The bodies of the requests, in their order."""
        self._replies = deque(replies)
        self._otherwise = otherwise
        self._lock = Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, name="model-server", daemon=True)

    @property
    def base_url(self) -> str:
        """What a client is given."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def reply(self, *replies: Reply) -> None:
        """Say these next, after what is still to be said."""
        with self._lock:
            self._replies.extend(replies)

    def next_reply(self, asked: dict[str, Any]) -> Reply:
        """Note a request; what to answer."""
        with self._lock:
            self.requests.append(asked)
            if self._replies:
                return self._replies.popleft()
        if callable(self._otherwise):
            return self._otherwise(asked)
        return Failure(500) if self._otherwise is None else self._otherwise

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._json(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.model.next_reply(asked)
        if isinstance(reply, Failure):
            self._fail(reply)
        elif asked.get("stream"):
            self._stream(asked, reply)
        elif isinstance(reply, CutOff):
            self.close_connection = True
        else:
            self._json(200, _completion(asked, reply))

    def _fail(self, reply: Failure) -> None:
        more = {} if reply.retry_after_s is None else {"Retry-After": f"{reply.retry_after_s:g}"}
        self._json(reply.status, {"error": {"message": "as the test says", "type": "scripted"}}, more)

    def _json(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, asked: dict[str, Any], reply: str | ToolCall | CutOff) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        deltas = _deltas(asked, reply)
        for delta in deltas[: reply.pieces] if isinstance(reply, CutOff) else deltas:
            self._event(asked, {"delta": delta, "finish_reason": None})
        if not isinstance(reply, CutOff):
            self._event(asked, {"delta": {}, "finish_reason": _reason(reply)})
            self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, asked: dict[str, Any], choice: dict[str, Any]) -> None:
        body = {**_head(asked, "chat.completion.chunk"), "choices": [{"index": 0, **choice}]}
        self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
        """Print nothing."""


def _head(asked: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": 0, "model": asked.get("model", "scripted")}


def _reason(reply: str | ToolCall | CutOff) -> str:
    return "tool_calls" if isinstance(reply, ToolCall) else "stop"


def _call(asked: Mapping[str, Any], reply: ToolCall) -> dict[str, Any]:
    """Two calls of one tool in a conversation have two ids; a repeated request gets the same one."""
    function = {"name": reply.name, "arguments": json.dumps(dict(reply.arguments))}
    number = len(asked.get("messages", ()))
    return {"id": f"call_{reply.name}_{number}", "type": "function", "function": function}


def _completion(asked: Mapping[str, Any], reply: str | ToolCall) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply if isinstance(reply, str) else None}
    if isinstance(reply, ToolCall):
        message["tool_calls"] = [_call(asked, reply)]
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
    return {**_head(asked, "chat.completion"), "choices": [choice], "usage": usage}


def _deltas(asked: Mapping[str, Any], reply: str | ToolCall | CutOff) -> list[dict[str, Any]]:
    if isinstance(reply, ToolCall):
        return [{"role": "assistant", "tool_calls": [{"index": 0, **_call(asked, reply)}]}]
    text = reply.text if isinstance(reply, CutOff) else reply
    return [{"content": text[at : at + _WORDS]} for at in range(0, len(text), _WORDS)]
