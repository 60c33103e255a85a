"""Requests of an agent to the proxy, and what the provider answers: both are in the input.

``METHOD path?query``, headers, an empty line, the body; then a line ``====``, and the answer: a status, a content type, the body.
"""

import asyncio
from typing import Any

import httpx
from tests.fuzz.scratch import scratch_store
from tests.support.hostile import look_at_everything

import holdfast
from holdfast.adapters.shared.turns import Turns
from holdfast.adapters.wire.exchange import Manner
from holdfast.adapters.wire.transport import journaled
from holdfast.engine.run.call_site import here_now
from holdfast.model.provider_patience import Patience
from holdfast.proxy.providers import Upstreams
from holdfast.proxy.relay import Relay

PORT = 8898
ADDRESS = f"http://127.0.0.1:{PORT}/a1b2"
HASTE = Patience(first_s=0.001, longest_s=0.001, fall_back_s=0.001, give_up_s=0.001, stall_s=1.0)


def check(data: bytes) -> None:
    """One whole answer, with a status and headers that a socket takes; asked again, the same; and the run stays readable."""
    asked, _, answered = data.partition(b"\n====\n")
    head, _, body = asked.partition(b"\n\n")
    line, *headers = head.split(b"\n")
    method, _, target = line.partition(b" ")
    path, _, query = target.partition(b"?")
    if not method.isalpha() or not path.startswith(b"/"):
        return
    pairs = [(b"host", b"127.0.0.1:%d" % PORT)]
    for header in headers[:20]:
        name, sign, text = header.partition(b":")
        if sign and name.strip().isalnum():
            pairs.append((name.strip().lower(), text.strip()))
    scope = {
        "type": "http", "method": method.decode(), "raw_path": b"/a1b2" + path, "query_string": query, "headers": pairs,
    }  # fmt: skip
    with scratch_store() as store:
        asyncio.run(_relayed(store, scope, body, answered))
        look_at_everything(store)


async def _relayed(store: holdfast.Store, scope: dict[str, Any], body: bytes, answered: bytes) -> None:
    status, _, rest = answered.partition(b"\n")
    kind, _, told = rest.partition(b"\n")
    code = int(status) if status.isdigit() and len(status) == 3 and 200 <= int(status) < 600 else 200

    def provider(_: httpx.Request) -> httpx.Response:
        return httpx.Response(
            code, headers=[(b"content-type", bytes(c for c in kind if 31 < c < 127))], content=told
        )

    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(provider)) as client,
        holdfast.run("a", store=store, stops="suppress"),
    ):
        here = here_now()
        assert here is not None
        manner = Manner("holdfast.proxy", "", "continue", "auto", HASTE, (), ())
        turns = Turns(here, is_alone=True)
        upstreams = Upstreams("http://127.0.0.1:1", {}, ADDRESS)
        relay = Relay(journaled(client, manner), turns, upstreams, ADDRESS, lambda *_, **__: None)
        await asyncio.wait_for(_answer(relay, scope, body), 30)
        assert not relay.running or relay.is_over.is_set()


async def _answer(relay: Relay, scope: dict[str, Any], body: bytes) -> None:
    given, sent = [{"type": "http.request", "body": body, "more_body": False}], list[dict[str, Any]]()

    async def receive() -> dict[str, Any]:
        if given:
            return given.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await relay(scope, receive, send)
    assert [one["type"] for one in sent[:1]] == ["http.response.start"], sent
    assert 200 <= sent[0]["status"] < 600, sent[0]
    for name, text in sent[0]["headers"]:
        assert not set(name + text) & set(b"\r\n\0"), sent[0]
    if sent[-1].get(
        "more_body"
    ):  # a stream that broke off: the server closes the connection, and the next attempt asks again
        assert relay._failure is not None or relay.stop is not None, (
            "an answer without an end, and no failure"
        )
