"""The desk's model as Anthropic's API has it, for the CLI of the Claude Agent SDK; standard library only."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from desk import next_call

Event = dict[str, Any]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.partition("?")[0] != "/v1/messages":
            return self._send("application/json", b'{"input_tokens": 1}')  # a count of tokens
        events = "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in _answer(asked))
        return self._send("text/event-stream", events.encode())

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
        """Print nothing."""


def _answer(asked: dict[str, Any]) -> Iterator[Event]:
    turn = sum(message["role"] == "assistant" for message in asked["messages"])
    call = next_call(turn)
    usage = {"input_tokens": 20, "output_tokens": 5}
    message = {"id": f"msg_{turn}", "type": "message", "role": "assistant", "model": asked["model"]}
    yield {"type": "message_start", "message": {**message, "content": [], "usage": usage}}
    if call is None:
        yield _block({"type": "text", "text": ""})
        yield _delta({"type": "text_delta", "text": "The report is out."})
    else:
        yield _block(
            {"type": "tool_use", "id": f"toolu_{turn}", "name": f"mcp__desk__{call[0]}", "input": {}}
        )
        yield _delta({"type": "input_json_delta", "partial_json": json.dumps(call[1])})
    yield {"type": "content_block_stop", "index": 0}
    reason = "end_turn" if call is None else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def _block(block: Event) -> Event:
    return {"type": "content_block_start", "index": 0, "content_block": block}


def _delta(delta: Event) -> Event:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


@contextmanager
def anthropic_model() -> Iterator[str]:
    """The server, until the block is left; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
