"""The provider's HTTP: real sockets on 127.0.0.1, HTTP/1.1 with keep-alive, server-sent events in chunks.

What is answered is decided in ``script``; here it is sent, slowly if told so, and cut, stalled or garbled where a fault
says so.
"""

import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from tests.support.model_server import frames as wire
from tests.support.model_server.apis import Api, api_of, is_embedding
from tests.support.model_server.endpoints import lobby
from tests.support.model_server.fault_catalogue import Outgoing, altered, rendered
from tests.support.model_server.faults import Fault, bad_request, unknown_model
from tests.support.model_server.frames import Frame
from tests.support.model_server.messages import told_events
from tests.support.model_server.records import Exchange, Record
from tests.support.model_server.request import Malformed
from tests.support.model_server.script import Answer, Script

_RESET: Final = struct.pack("ii", 1, 0)
"""Linger for no time: closing sends a reset."""


class Listener(ThreadingHTTPServer):
    """The socket and its threads."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, port: int, script: Script, record: Record) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.script = script
        self.record = record
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_all(self) -> None:
        """End every connection, kept alive or in the middle of an answer, and free the port."""
        self.closing.set()
        self.shutdown()
        self.server_close()
        with self._lock:
            left = list(self._open)
        for connection in left:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it ended by itself
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is what is tested here; anything else is a defect of the provider."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Cut(Exception):
    """The connection has been ended by a fault."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "scripted"
    disable_nagle_algorithm = True  # a token goes out when it is written
    server: Listener
    _exchange: Exchange

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path == "/control/exchanges":
            self._whole(200, len(self.server.record.settled()))
            return
        exchange = self._exchange = self.server.record.open("GET", self.path, None)
        try:
            how, status = self._tell()
        except _Cut:
            how, status = "cut", 200
            self.close_connection = True
        except OSError:
            how, status = "gone", 200
            self.close_connection = True
        self.server.record.ended(exchange, how, status)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            self._refuse(bad_request("We could not parse the JSON body of your request."))
            return
        if self.path == "/control":
            self.server.script.tell(body)
            self._whole(200, {"ok": True})
            return
        exchange = self._exchange = self.server.record.open("POST", self.path, body)
        try:
            how, status = self._answer(exchange, body)
        except _Cut:
            how, status = "cut", 200
            self.close_connection = True
        except OSError:
            how, status = "gone", 200
            self.close_connection = True
        self.server.record.ended(exchange, how, status)

    # -- deciding ---------------------------------------------------------------------------------------------------

    def _tell(self) -> tuple[str, int]:
        """What the provider says about itself; an outage strikes that too."""
        fault = self.server.script.outage
        if fault is not None and fault.kind == "refusal":
            self._refuse(fault)
            return "refused", fault.status
        if fault is not None and fault.kind != "altered":
            self._before_headers(fault._replace(after=None))
            self._garbled(fault)
            return "finished", 200
        status, body = lobby(self.path, self.server.script)
        self._whole(status, body)
        return "finished" if status == 200 else "refused", status

    def _answer(self, exchange: Exchange, body: dict[str, Any]) -> tuple[str, int]:
        script = self.server.script
        api = api_of(self.path)
        fault = script.fault_of(exchange.number)
        model = api.model_of(self.path, body) if api is not None else str(body.get("model"))
        if api is None and not is_embedding(self.path):
            fault = Fault("refusal", status=404, body='{"error":{"message":"Not Found","code":404}}')
        elif fault is None and not script.has_model(model):
            fault = unknown_model(model)
        if fault is not None and fault.kind == "refusal":
            self._refuse(fault, api)
            return "refused", fault.status
        if api is None:
            self._send(exchange, fault, 0.0, [Frame(json.dumps(wire.embeddings(body)).encode())], None, None)
            return "finished", 200
        try:
            asked = api.understand(self.path, body, script.flavour)
        except Malformed as error:
            self._refuse(bad_request(str(error)), api)
            return "refused", 400
        answer = script.answer(exchange.number, asked)
        if answer.fault is not None and answer.fault.kind == "refusal":
            self._refuse(answer.fault, api)
            return "refused", answer.fault.status
        told = script.frames
        frames = _frames(answer, api) if told is None else told_events(told)
        self._send(exchange, answer.fault, answer.drip_s, frames, answer, api)
        return "finished", 200

    # -- sending ----------------------------------------------------------------------------------------------------

    def _send(
        self,
        exchange: Exchange,
        fault: Fault | None,
        drip_s: float,
        frames: Iterable[Frame],
        answer: Answer | None,
        api: Api | None,
    ) -> None:
        if fault is not None:
            self._before_headers(fault)
        stream = answer is not None and answer.asked.stream
        if fault is not None and fault.kind == "altered":
            self._altered(fault.how, tuple(frame.data for frame in frames), api if stream else None)
            return
        if fault is not None and fault.kind in {"error_body", "bad_json", "wrong_type"}:
            self._garbled(fault)
            return
        if stream:
            assert api is not None
            self.send_response(200)
            self.send_header("content-type", api.content_type)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self._stream(exchange, frames, fault, drip_s, api)
            return
        data = b"".join(frame.data for frame in frames)
        made = 0 if answer is None else answer.completion_tokens
        self._pause(drip_s * made)
        self._head(200, "application/json", len(data))
        if fault is not None and fault.kind == "cut":
            self.wfile.write(data[: len(data) // 2 if fault.after_bytes is None else fault.after_bytes])
            self._hang_up(fault)
        if fault is not None and fault.kind == "stall" and fault.after is not None:
            self.wfile.write(data[: len(data) // 2])
            self._pause(fault.seconds)
            data = data[len(data) // 2 :]
        self.wfile.write(data)
        if answer is not None:
            self.server.record.sent(exchange, answer.content or "")

    def _stream(
        self, exchange: Exchange, frames: Iterable[Frame], fault: Fault | None, drip_s: float, api: Api
    ) -> None:
        tokens = size = 0
        due = time.monotonic()
        for frame in frames:
            fault = self._in_stream(fault, frame, tokens, size, api)
            if frame.is_token and drip_s:
                due += drip_s
                self._pause(due - time.monotonic())
            self._chunk(frame.data)
            size += len(frame.data)
            if frame.is_token:
                tokens += 1
                self.server.record.sent(exchange, frame.text)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _whole(self, status: int, body: Any) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self._head(status, "text/plain" if isinstance(body, str) else "application/json", len(data))
        self.wfile.write(data)

    def _head(self, status: int, kind: str, length: int) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(length))
        self.end_headers()

    def _pause(self, seconds: float) -> None:
        """Wait, but not longer than the provider lives."""
        if seconds <= 0:
            return
        self._exchange.busy.release()
        closing = self.server.closing.wait(seconds)
        self._exchange.busy.acquire()
        if closing:
            raise ConnectionAbortedError

    # -- what goes wrong --------------------------------------------------------------------------------------------

    def _refuse(self, fault: Fault, api: Api | None = None) -> None:
        data = (fault.body if api is None else api.refusal(fault)).encode()
        self.send_response(fault.status)
        headers = {"content-type": "application/json", **dict(fault.headers)}
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _before_headers(self, fault: Fault) -> None:
        if fault.after is not None:
            return
        if fault.kind == "stall":
            self._pause(fault.seconds)
        elif fault.kind == "cut":
            self._hang_up(fault)

    def _garbled(self, fault: Fault) -> None:
        data = fault.body.encode() or b'{"id": "chatcmpl-1", "choices": [{"index": 0, "mess'
        kind = "text/html" if fault.kind == "wrong_type" else "application/json"
        self._head(200, kind, len(data))
        self.wfile.write(data)

    def _altered(self, name: str, pieces: tuple[bytes, ...], api: Api | None) -> None:
        """Send an answer as a kind of the catalogue has it. ``api`` is that of a stream. The connection ends with it."""
        kind = "application/json" if api is None else api.content_type
        good = Outgoing(
            pieces, api is not None, headers=(("content-type", kind),), path=self.path, key=self._key()
        )
        self.close_connection = True
        for part in rendered(altered(name, good)):
            if isinstance(part, float):
                self._pause(part)
            elif isinstance(part, str):
                self._hang_up(Fault("cut", how=part))
            else:
                self.wfile.write(part)

    def _key(self) -> str:
        """The key of the request, wherever its protocol has it."""
        names = ("authorization", "x-api-key", "x-goog-api-key")
        return next((told for name in names if (told := self.headers.get(name))), "").removeprefix("Bearer ")

    def _in_stream(self, fault: Fault | None, frame: Frame, tokens: int, size: int, api: Api) -> Fault | None:
        """Strike before this frame of a stream, if it is time; what is left of the fault afterwards."""
        if fault is None or fault.after is None:
            return fault
        if fault.after_bytes is not None:
            if size + len(frame.data) <= fault.after_bytes:
                return fault
            self._chunk(frame.data[: fault.after_bytes - size])
            self._hang_up(fault)
        if tokens < fault.after or not size:
            return fault
        if fault.kind == "stall":
            self._pause(fault.seconds)
        elif fault.kind == "bad_line":
            self._chunk(api.bad_line)
        elif fault.kind == "error_event":
            self._chunk(api.error_event(fault))
            self._hang_up(fault._replace(how="clean"))
        elif fault.kind == "cut":
            self._hang_up(fault)
        return None

    def _hang_up(self, fault: Fault) -> None:
        if fault.how == "clean":
            self.wfile.write(b"0\r\n\r\n")
            raise _Cut
        if fault.how == "rst":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            os.close(self.connection.detach())
        raise _Cut


def _frames(answer: Answer, api: Api) -> Iterator[Frame]:
    """The frames of an answer; an empty one is made apart, because no model would have said it."""
    if answer.fault is not None and answer.fault.kind == "empty":
        yield from api.empty(answer)
    elif answer.asked.stream:
        yield from api.frames(answer)
    else:
        yield Frame(json.dumps(api.whole(answer), ensure_ascii=False).encode())
