"""A webhook receiver on loopback that does as it is told: answers, fails, stalls, redirects."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

DEADLINE_S = 60.0


class Request(NamedTuple):
    """One request as it came."""

    headers: dict[str, str]
    body: bytes

    @property
    def notice(self) -> dict[str, Any]:
        """Its content."""
        content: dict[str, Any] = json.loads(self.body)
        return content


class Receiver:
    """What came, and what is answered: ``answers`` are used one by one, and then 204."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: list[int | Callable[[], int]] = []
        self.released = Event()
        """Set at the end: a receiver that stalls waits for it."""
        self.url = ""

    def stall(self) -> int:
        """An answer that does not come before the test is over."""
        self.released.wait(DEADLINE_S)
        return 204

    @property
    def seen(self) -> list[tuple[str, str]]:
        """The runs and cases that were received, in order."""
        return [(one.notice["run"], one.notice["what"]) for one in self.requests]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append(Request({k.lower(): v for k, v in self.headers.items()}, body))
            answer = receiver.answers.pop(0) if receiver.answers else 204
            status = answer() if callable(answer) else answer
            try:
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", f"{receiver.url}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()
            except OSError:  # the sender has given up
                self.close_connection = True

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE_S)
