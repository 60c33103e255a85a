"""Requests that are cut off before their answer begins, in a program that goes on and asks again."""

import json
from pathlib import Path

import httpx
import pytest

import holdfast

URL = "https://provider.example/v1/chat/completions"
CHUNK = {
    "id": "a",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
}
ANSWER = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}],
}


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
def test_a_request_that_was_cut_off_and_made_again_is_one_call(tmp_path: Path, is_stream: bool) -> None:
    """A replay asks nobody. Before, a stream kept its number: the replay took it for another call, and asked."""
    asked: list[str] = []

    def provider(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        if len(asked) == 1:
            raise KeyboardInterrupt
        if is_stream:
            content = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n"
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=content)
        return httpx.Response(200, json=ANSWER)

    def ask(client: httpx.Client) -> str:
        body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "stream": is_stream}
        try:
            return client.post(URL, json=body).raise_for_status().text
        except KeyboardInterrupt:
            return client.post(URL, json=body).raise_for_status().text

    for _ in range(2):
        with (
            pytest.raises(ZeroDivisionError),
            httpx.Client(transport=httpx.MockTransport(provider)) as plain,
            holdfast.run("a", store=tmp_path / "a.db"),
        ):
            assert "Done." in ask(holdfast.wrap(plain))
            raise ZeroDivisionError
    assert len(asked) == 2
