"""The model: a real HTTP server on loopback that remembers every question.

It answers from a script, or relays the question to a real endpoint; it counts both the same way. The agent
cannot see the difference. The invariant: a question is noted before it is answered, so that the question of a
killed agent counts too.
"""

import hashlib
import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self

from holdfast.cli.demo.model_client import (
    ATTEMPT_HEADER,
    Unanswered,
    base_url,
    complete,
    list_models,
)
from holdfast.model.named_tuple import NamedTuple

Answer = Callable[[dict[str, Any]], dict[str, Any]]

SCRIPTED_MODEL = "scripted"

_FACTS = {
    "holdfasts": "A holdfast grips the rock by hundreds of small branches; no single wave can tear it loose.",
    "fronds": "Fronds bend with the swell and let it pass instead of standing against it.",
    "urchins": "Urchins gnaw at holdfasts, and what they have hollowed out is what the storm takes.",
}
_LOOK_TIMEOUT_S = 10.0
_WARM_TIMEOUT_S = 300.0
_BODY_BYTES_MAX = 1_000_000


class Request(NamedTuple):
    """One request: which attempt of the run sent it, and its question."""

    attempt: int
    question: str


class Provider:
    """An OpenAI-compatible server on a free port of loopback. Used with ``with``."""

    def __init__(self, answer: Answer, *, model: str) -> None:
        self.model = model
        self.asked: list[Request] = []
        self._answer = answer
        self._server = _Server(("127.0.0.1", 0), _handler_for(self))
        self._thread = Thread(
            target=self._server.serve_forever, args=(0.05,), name="demo-provider", daemon=True
        )

    @property
    def endpoint(self) -> str:
        """The URL for the agent."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def reply(self, attempt: int, payload: dict[str, Any]) -> dict[str, Any]:
        """Note the question, then answer it."""
        self.asked.append(Request(attempt, question_in(payload)))
        return self._answer(payload)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def scripted_provider() -> Provider:
    """A model that needs no weights: it answers by script."""
    return Provider(lambda payload: _completion(scripted_answer(question_in(payload))), model=SCRIPTED_MODEL)


def real_provider(address: str, model: str | None) -> Provider:
    """A relay to a real endpoint, which has already answered one question. Raises Unanswered."""
    base = base_url(address)
    names = list_models(base, timeout_s=_LOOK_TIMEOUT_S)
    if model is None and not names:
        raise Unanswered(f"{base} does not list its models", "name one with --model NAME")
    chosen = model or names[0]

    def answer(payload: dict[str, Any]) -> dict[str, Any]:
        return complete(base, payload, timeout_s=_WARM_TIMEOUT_S)

    greeting = {"model": chosen, "messages": [{"role": "user", "content": "Say ok."}], "max_tokens": 8}
    try:
        answer(greeting)
    except Unanswered as refused:
        raise Unanswered(
            f"model {chosen!r}: {refused}", refused.hint or _hint_for(chosen, names)
        ) from refused
    return Provider(answer, model=chosen)


def scripted_answer(question: str) -> str:
    """The answer of the script: a function of the question, so that equal questions get equal answers."""
    for topic, fact in _FACTS.items():
        if f"what do {topic} mean" in question:
            return fact
    mark = hashlib.sha256(question.encode()).hexdigest()[:8]
    return f"Grip the rock, bend with the wave, and mind what gnaws at the grip (sum of {mark})."


def question_in(payload: dict[str, Any]) -> str:
    """The last message to the model."""
    return str(payload["messages"][-1]["content"])


def _completion(text: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-demo",
        "object": "chat.completion",
        "model": SCRIPTED_MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    }


def _hint_for(model: str, names: list[str]) -> str:
    if names and model not in names:
        return f"the server has: {', '.join(names[:10])}; choose one of them with --model"
    return f"is the model there? With Ollama: `ollama pull {model}`"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # an answer to a killed agent may still be on its way from a slow real model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: a killed agent leaves a broken pipe, which is the point of the demo."""


def _handler_for(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self._send(200, {"object": "list", "data": [{"id": provider.model, "object": "model"}]})
            else:
                self._send(404, {"error": {"message": f"nothing at {self.path}"}})

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            if self.path != "/v1/chat/completions" or size > _BODY_BYTES_MAX:
                self._send(404, {"error": {"message": f"nothing at {self.path}"}})
                return
            payload = json.loads(self.rfile.read(size))
            try:
                answer = provider.reply(int(self.headers.get(ATTEMPT_HEADER, 0)), payload)
            except Unanswered as error:
                self._send(502, {"error": {"message": str(error)}})
            else:
                self._send(200, answer)

        def _send(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's signature
            """Log nothing: the demo prints its own story."""

    return Handler
