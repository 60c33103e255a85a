"""Requests to the inspector: ``METHOD path?query`` in the first line, the body of a POST behind it. The token is right."""

import asyncio
from contextlib import suppress
from functools import cache
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote_to_bytes

from tests.fuzz.scratch import scratch_store
from tests.support.hostile import content, look_at_everything

import holdfast
from holdfast.stores.in_memory import MemoryStore
from holdfast.ui import html, server
from holdfast.ui.server import Options, make_app

TOKEN = "a-token-that-nobody-guesses"
PORT = 8899
OPTIONS = Options(token=TOKEN, person="ada")
TEMPLATES = cache(html.environment)
"""Compiled once, and not for each input."""


@holdfast.tool(effect="once")
def vanish(amount: int) -> str:
    raise ConnectionError(f"the line broke at {amount}")


def check(data: bytes) -> None:
    """Answered below 500; a GET changes nothing, and whatever an act has written can be looked at afterwards."""
    line, _, body = data.partition(b"\n")
    method, _, target = line.partition(b" ")
    path, _, query = target.partition(b"?")
    if method not in {b"GET", b"POST"} or not path.startswith(b"/") or path.startswith(b"/static"):
        return
    if method == b"GET":
        store, app, before = _shared()
        status, answer = asyncio.run(_ask(app, "GET", path, query, b""))
        assert 200 <= status < 500, (status, answer[:400])
        assert content(store) == before, "looking changed something"
        return
    with scratch_store() as own:
        _fill(own)
        app = _app(own)
        status, answer = asyncio.run(_ask(app, "POST", path, query, body))
        assert 200 <= status < 500, (status, answer[:400])
        look_at_everything(own)


@cache
def _shared() -> tuple[holdfast.Store, Any, Any]:
    """A store that nothing may change, with its application."""
    store = holdfast.Store(
        MemoryStore("fuzzed-inspector")
    )  # not by its URL: those are closed behind each test
    _fill(store)
    return store, _app(store), content(store)


def _app(store: holdfast.Store) -> Any:
    with patch.object(server, "environment", TEMPLATES):
        return make_app(store, OPTIONS, PORT)


def _fill(store: holdfast.Store) -> None:
    with holdfast.run("done", store=store, goal="see") as run:
        run.plan(["look"])
        run.step("look", len, "four")
        run.think("about money")
        run.checkpoint({"money": 10}, label="before")
    with holdfast.run("asks", store=store, stops="suppress") as run:
        run.ask("May it go on?", returns=bool)
    with holdfast.run("doubtful", store=store, stops="suppress"):
        vanish(7)


async def _ask(app: Any, method: str, path: bytes, query: bytes, body: bytes) -> tuple[int, bytes]:
    """The status and the answer of the application; of a stream that does not end, what comes first."""
    headers = [
        (b"host", b"127.0.0.1:%d" % PORT),
        (b"authorization", b"Bearer " + TOKEN.encode()),
        (b"content-type", b"application/json"),
    ]
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": unquote_to_bytes(path).decode("utf-8", "replace"), "raw_path": path, "query_string": query,
        "root_path": "", "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", PORT),
    }  # fmt: skip
    given, gone = [{"type": "http.request", "body": body, "more_body": False}], asyncio.Event()
    status, answer = 0, b""

    async def receive() -> dict[str, Any]:
        if given:
            return given.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, answer
        if message["type"] == "http.response.start":
            status = message["status"]
            if any(value.startswith(b"text/event-stream") for _, value in message["headers"]):
                gone.set()
        else:
            answer += message.get("body", b"")

    with suppress(TimeoutError):
        await asyncio.wait_for(app(scope, receive, send), 30)
    return status, answer
