"""Mistral's client: one object with blocking and async methods, through ``httpx2``. It speaks OpenAI's protocol, strictly."""

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from mistralai.client import Mistral as Client
from mistralai.client import errors
from tests.adapters.clients.drivers import KEY, Driver


def _said(text: str) -> Any:
    return [{"role": "user", "content": text}]


class Mistral(Driver):
    """Its blocking methods."""

    name = "mistral"
    flavour = "mistral"
    refusals: ClassVar = dict.fromkeys((400, 401, 404, 503), errors.SDKError)
    in_stream = errors.ResponseValidationError

    def connect(self, url: str, key: str = KEY) -> Any:
        return Client(api_key=key, server_url=url, timeout_ms=60_000)

    async def close(self, client: Any) -> None:
        with client:
            await client.sdk_configuration.async_client.aclose() if self.is_async else None

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return client.chat.complete(model=self.model, messages=_said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        with client.chat.stream(model=self.model, messages=_said(text), **options) as stream:
            for event in stream:
                yield event.data.choices[0].delta.content or "" if event.data.choices else ""

    def text_of(self, answer: Any) -> str:
        return str(answer.choices[0].message.content or "")

    async def unjournaled(self, client: Any) -> None:
        client.ocr.process(model="m", document={"type": "document_url", "document_url": "http://127.0.0.1/a"})


class AsyncMistral(Mistral):
    """Its async methods."""

    name = "mistral-async"
    is_async = True

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return await client.chat.complete_async(model=self.model, messages=_said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        given = await client.chat.stream_async(model=self.model, messages=_said(text), **options)
        async with given as stream:
            async for event in stream:
                yield event.data.choices[0].delta.content or "" if event.data.choices else ""

    async def unjournaled(self, client: Any) -> None:
        document = {"type": "document_url", "document_url": "http://127.0.0.1/a"}
        await client.ocr.process_async(model="m", document=document)
