"""Between a store and its servers: a proxy that loses requests, loses answers, and answers by itself."""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

CUT_BEFORE = "cut before"
"""The request never reaches the server."""
CUT_AFTER = "cut after"
"""The server acts, and nobody hears of it."""
CUT_WITHIN = "cut within"
"""The server acts, and half of its answer is heard."""


class Proxy:
    """Counts what passes by its operation, which for objects is the method. ``faults`` holds what happens to the next requests
    of an operation, and ``always`` tells what happens to all others."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.seen: Counter[str] = Counter()
        self.faults: dict[str, list[Any]] = {}
        self.always: Callable[[str, bytes], Any] = lambda operation, body: None
        self.lock = threading.Lock()
        self.address = ""

    def fault_for(self, operation: str, body: bytes) -> Any:
        with self.lock:
            self.seen[operation] += 1
            left = self.faults.get(operation, [])
            return left.pop(0) if left else self.always(operation, body)


@contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    proxy = Proxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits 40 ms for the client to acknowledge its headers

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            target = self.headers.get("X-Amz-Target", "")
            fault = proxy.fault_for(target.rpartition(".")[2] or self.command, body)
            if fault == CUT_BEFORE:
                self.close_connection = True
                return
            if isinstance(fault, tuple):
                status, told = fault
                content = told if isinstance(told, bytes) else json.dumps(told).encode()
                self._answer(status, [("Content-Type", "application/x-amz-json-1.0")], content)
                return
            try:
                answer, content = self._passed_on(body)
            except OSError:  # there is no server at the moment
                self.close_connection = True
                return
            if fault == CUT_AFTER:
                self.close_connection = True
                return
            if fault == CUT_WITHIN:
                self._answer(answer.status, answer.getheaders(), content, cut=True)
                return
            self._answer(answer.status, answer.getheaders(), content)

        do_GET = do_PUT = do_DELETE = do_HEAD = do_POST

        def _passed_on(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
            server = http.client.HTTPConnection(str(proxy.upstream.hostname), proxy.upstream.port)
            try:
                server.request(self.command, self.path, body, dict(self.headers.items()))
                answer = server.getresponse()
                return answer, answer.read()
            finally:
                server.close()

        def _answer(
            self, status: int, headers: list[tuple[str, str]], content: bytes, *, cut: bool = False
        ) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
            self.close_connection = self.close_connection or cut

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def refusal(code: str, status: int = 400, **more: Any) -> tuple[int, dict[str, Any]]:
    """An answer of the service that refuses."""
    return status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": f"told: {code}", **more}


def cancelled(*codes: str) -> tuple[int, dict[str, Any]]:
    """A transaction that was cancelled, for these reasons."""
    return refusal("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])


def object_refusal(code: str, status: int) -> tuple[int, bytes]:
    """An answer of S3 that refuses."""
    return status, f"<Error><Code>{code}</Code><Message>told: {code}</Message></Error>".encode()
