"""Between a store and its DynamoDB: a proxy that loses requests, loses answers, and answers by itself."""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

CUT_BEFORE = "cut before"
"""The request never reaches the server."""
CUT_AFTER = "cut after"
"""The server acts, and nobody hears of it."""


class Proxy:
    """Counts what passes by its operation. ``faults`` holds what happens to the next requests of an operation."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.seen: Counter[str] = Counter()
        self.faults: dict[str, list[Any]] = {}
        self.lock = threading.Lock()
        self.address = ""

    def fault_for(self, operation: str) -> Any:
        with self.lock:
            self.seen[operation] += 1
            left = self.faults.get(operation, [])
            return left.pop(0) if left else None


@contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    proxy = Proxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            fault = proxy.fault_for(self.headers["X-Amz-Target"].rpartition(".")[2])
            if fault == CUT_BEFORE:
                self.close_connection = True
                return
            if isinstance(fault, tuple):
                self._answer(fault[0], "application/x-amz-json-1.0", json.dumps(fault[1]).encode())
                return
            server = http.client.HTTPConnection(str(proxy.upstream.hostname), proxy.upstream.port)
            server.request("POST", self.path, body, dict(self.headers.items()))
            answer = server.getresponse()
            content = answer.read()
            server.close()
            if fault == CUT_AFTER:
                self.close_connection = True
                return
            self._answer(answer.status, answer.headers["Content-Type"], content)

        def _answer(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

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
