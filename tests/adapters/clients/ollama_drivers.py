"""Ollama's client: its own protocol, in lines of JSON, through ``httpx``."""

from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from typing import Any, ClassVar

import ollama
from tests.adapters.clients.drivers import KEY, Driver


def _said(text: str) -> Any:
    return [{"role": "user", "content": text}]


class Ollama(Driver):
    """The blocking client."""

    name = "ollama"
    refusals: ClassVar = dict.fromkeys((400, 401, 404, 503), ollama.ResponseError)
    in_stream = ollama.ResponseError
    tells_errors = False  # an error is a text

    def connect(self, url: str, key: str = KEY) -> Any:
        return ollama.Client(url, headers={"authorization": f"Bearer {key}"}, timeout=60)

    async def close(self, client: Any) -> None:
        client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return client.chat(self.model, _said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        with closing(client.chat(self.model, _said(text), stream=True, **options)) as stream:
            for chunk in stream:
                yield chunk.message.content or ""

    def text_of(self, answer: Any) -> str:
        return answer.message.content or ""

    async def unjournaled(self, client: Any) -> None:
        client.pull("m")


class AsyncOllama(Ollama):
    """The async client."""

    name = "ollama-async"
    is_async = True

    def connect(self, url: str, key: str = KEY) -> Any:
        return ollama.AsyncClient(url, headers={"authorization": f"Bearer {key}"}, timeout=60)

    async def close(self, client: Any) -> None:
        await client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return await client.chat(self.model, _said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        async with aclosing(await client.chat(self.model, _said(text), stream=True, **options)) as stream:
            async for chunk in stream:
                yield chunk.message.content or ""

    async def unjournaled(self, client: Any) -> None:
        await client.pull("m")
