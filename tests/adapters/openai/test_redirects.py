"""A provider behind an address that has moved: the client follows, inside a run as outside of one."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

import holdfast
from holdfast.model.events import Kind

MOVED = "https://gateway.example/v1/chat/completions"
NEW = "https://new.example/v1/chat/completions"
ANSWER = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}],
}
CHUNK = {
    "id": "a",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
}
STREAM = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n".encode()
HEADERS = {"content-type": "text/event-stream"}


class Providers:
    """The address that has moved, and the one that answers."""

    def __init__(self, status: int) -> None:
        self.asked: list[tuple[str, str]] = []
        self._status = status

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.method, str(request.url)))
        if str(request.url) == MOVED:
            return httpx.Response(self._status, headers={"location": NEW}, content=b"moved")
        if json.loads(request.content or b"{}").get("stream"):
            return httpx.Response(200, headers=HEADERS, content=STREAM)
        return httpx.Response(200, json=ANSWER)


def ask(providers: Providers, store: Path, said: list[str], *, is_stream: bool) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "stream": is_stream}
    with (
        httpx.Client(transport=httpx.MockTransport(providers), follow_redirects=True) as plain,
        holdfast.run("a", store=store),
    ):
        said.append(holdfast.wrap(plain).post(MOVED, json=body).raise_for_status().text)
        raise ZeroDivisionError


async def ask_async(providers: Providers, store: Path, said: list[str], *, is_stream: bool) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "stream": is_stream}
    transport = httpx.MockTransport(providers)
    async with (
        httpx.AsyncClient(transport=transport, follow_redirects=True) as plain,
        holdfast.run("a", store=store),
    ):
        said.append((await holdfast.wrap(plain).post(MOVED, json=body)).raise_for_status().text)
        raise ZeroDivisionError


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_a_request_that_is_sent_elsewhere_is_one_call(
    tmp_path: Path, status: int, is_stream: bool, is_async: bool
) -> None:
    """Recorded once, with the answer; a replay asks neither address. Before, it was a recorded refusal."""
    providers, store, said = Providers(status), tmp_path / "a.db", list[str]()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            if is_async:
                asyncio.run(ask_async(providers, store, said, is_stream=is_stream))
            else:
                ask(providers, store, said, is_stream=is_stream)
    assert len(said) == 2
    assert all("Done." in text for text in said)
    assert providers.asked == [("POST", MOVED), ("POST", NEW)]
    kinds = [event.kind for event in holdfast.store(store).events("a")]
    assert (kinds.count(Kind.STEP_FINISHED), kinds.count(Kind.STEP_FAILED)) == (1, 0)


def test_a_redirect_that_would_make_the_call_a_read_is_a_refusal(tmp_path: Path) -> None:
    """303 makes the client GET the other address: no answer to a model call is there, and none is recorded."""
    providers = Providers(303)
    with pytest.raises(httpx.HTTPStatusError):
        ask(providers, tmp_path / "a.db", [], is_stream=False)
    assert providers.asked == [("POST", MOVED)]
