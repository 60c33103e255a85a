"""What stands outside of all frameworks: the model's provider, the service that the tools act on, and the log of both.

The log is the witness: a line for each request that came, each answer that was sent, each tool that began, each effect that was
made. It also knows where to kill: the process dies while it waits for the reply that it does not get.
"""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

from tests.support.model_server import Asked, Fault, Provider, Reply, ToolCall, text_of
from tests.support.model_server.records import Exchange, Record

from bench.recovery.task import ACTIONS, CALLS, TOKENS, call_of

What = Literal["asked", "answered", "began", "made"]
LATENCY_MS: Final = 20
"""How long the model thinks, about."""


class Place(NamedTuple):
    """A place of the task: a model call was asked or answered, a tool began or its effect was made."""

    what: What
    number: int


class Event(NamedTuple):
    """A place that was reached, by which attempt and when. ``key`` is the tool's, ``tokens`` are the request's."""

    at: float
    attempt: int
    what: What
    number: int
    key: str = ""
    tokens: int = 0

    @property
    def place(self) -> Place:
        return Place(self.what, self.number)


class Kill(NamedTuple):
    """SIGKILL when the task comes to a place for the first time; so much later, where the place is an answer."""

    place: Place
    after_s: float = 0.0


_LAST: Final = Place("answered", len(CALLS) - 1)
"""After it there is nothing left to kill."""
PLACES: Final = [
    *(
        Place(what, call.number)
        for call in CALLS
        for what in ("asked", "answered")
        if Place(what, call.number) != _LAST
    ),
    *(Place(what, action.number) for action in ACTIONS for what in ("began", "made")),
]


class Log:
    """All events, in memory and in a file, and the kills that are still to come."""

    def __init__(self, file: Path, kills: list[Kill]) -> None:
        self.events: list[Event] = []
        self.kills = list(kills)
        self.attempt = 0
        self.victim: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, what: What, number: int, *, key: str = "", tokens: int = 0) -> bool:
        """Write an event down. False if the process is killed at it, and may get no reply."""
        with self._lock:
            event = Event(time.time(), self.attempt, what, number, key, tokens)
            is_new = all(event.place != other.place for other in self.events)
            self.events.append(event)
            os.write(self._file, json.dumps(event._asdict()).encode() + b"\n")
            due = [kill for kill in self.kills if is_new and kill.place == event.place]
            if not due or self.victim is None:
                return True
            self.kills.remove(due[0])
            victim, self.victim = self.victim, None
        if due[0].after_s:
            threading.Timer(due[0].after_s, victim.kill).start()
            return True
        victim.kill()
        return False

    def begin(self) -> None:
        """Another attempt."""
        with self._lock:
            self.attempt += 1

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)


class World:
    """The provider and the service of one run, on ports of their own."""

    def __init__(self, directory: Path, kills: list[Kill] | None = None) -> None:
        self.log = Log(directory / "events", kills or [])
        self._requests = _Requests(self.log)
        self.provider = Provider(answering=self._answer, record=self._requests)
        self._service = _Service(self.log)
        self._thread = threading.Thread(target=self._service.serve_forever, args=[0.01], daemon=True)

    @property
    def environment(self) -> dict[str, str]:
        """Where the programs find both."""
        return {
            "RECOVERY_PROVIDER": self.provider.base_url,
            "RECOVERY_WORLD": f"http://127.0.0.1:{self._service.server_port}",
        }

    def made(self, number: int) -> bool:
        """Whether an effect was made."""
        return any(event.place == Place("made", number) for event in self.log.events)

    def __enter__(self) -> Self:
        self.provider.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.provider.stop()
        self._service.shutdown()
        self._service.server_close()
        self.log.close()

    def _answer(self, asked: Asked) -> Reply:
        body = self._requests.current.body
        call = call_of(json.dumps(body))
        if not self.log.note("asked", call.number, tokens=asked.prompt_tokens + TOKENS):
            return Reply(text="", fault=Fault("cut"))
        number = len(self.log.events)  # no provider gives an id twice
        if not call.actions:
            text = text_of(f"call {call.number}", TOKENS)
            if '"final_answer"' not in json.dumps(body.get("tools")):
                return Reply(text=text, drip_ms=LATENCY_MS / TOKENS)
            said = ToolCall("final_answer", json.dumps({"answer": text}), f"call_{number}")
            return Reply(text="", calls=(said,), drip_ms=LATENCY_MS / TOKENS)
        calls = tuple(
            ToolCall(action.tool, json.dumps({"number": action.number}), f"call_{number}_{action.number}")
            for action in call.actions
        )
        return Reply(text="", calls=calls, drip_ms=LATENCY_MS / 5)


class _Requests(Record):
    """The provider's own record. It has the whole request for whoever answers, and tells the log when an answer is sent."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.current = threading.local()
        self._log = log

    def open(self, method: str, path: str, body: Any) -> Exchange:
        self.current.body = body
        return super().open(method, path, body)

    def ended(self, exchange: Exchange, how: str, status: int) -> None:
        if how == "finished" and exchange.method == "POST":
            self._log.note("answered", call_of(json.dumps(exchange.body)).number)
        super().ended(exchange, how, status)


class _Service(ThreadingHTTPServer):
    """What the tools act on. A tool begins when its request comes; its effect is made before the reply is sent."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, log: Log) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.log = log

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is what is measured."""


class _Handler(BaseHTTPRequestHandler):
    server: _Service

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        act: Callable[[dict[str, Any]], Any] = self._find if self.path == "/find" else self._act
        result = act(body)
        if result is None:
            self.close_connection = True
            return
        data = json.dumps(result).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _act(self, body: dict[str, Any]) -> Any:
        number, key = body["number"], body["key"]
        log = self.server.log
        if not log.note("began", number) or not log.note("made", number, key=key):
            return None
        return f"{body['tool']} {number}: done"

    def _find(self, body: dict[str, Any]) -> Any:
        events = self.server.log.events
        return {"made": any(event.what == "made" and event.key == body["key"] for event in list(events))}

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
