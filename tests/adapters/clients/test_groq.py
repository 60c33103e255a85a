"""Groq's client speaks OpenAI's protocol, through ``httpx``."""

from typing import Any

import groq
from tests.support.model_server import Provider

import holdfast

ASK: Any = [{"role": "user", "content": "Tell of the sea."}]


def test_answers_and_streams_are_journaled_and_replayed(provider: Provider, url: str) -> None:
    """In the client's own types, without a further request."""
    base = provider.base_url.removesuffix("/v1")
    with groq.Groq(base_url=base, api_key="none", max_retries=0) as plain:
        client = holdfast.wrap(plain)

        def work() -> tuple[Any, str]:
            answer = client.chat.completions.create(model="m", messages=ASK)
            pieces = client.chat.completions.create(model="m", messages=ASK, stream=True)
            return answer, "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)

        try:
            with holdfast.run("a", store=url):
                first = work()
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        with holdfast.run("a", store=url):
            again = work()
    assert first[1] == again[1] == first[0].choices[0].message.content
    assert type(again[0]) is type(first[0])
    assert holdfast.replayed(again[0])
    assert not holdfast.replayed(first[0])
    assert len(provider.calls) == 2
