"""OpenAI's client: chat completions and the responses API, blocking and async."""

from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from typing import Any, ClassVar

import openai
from tests.adapters.clients.drivers import KEY, Driver


class OpenAi(Driver):
    """The blocking client, with chat completions."""

    name = "openai"
    refusals: ClassVar = {
        400: openai.BadRequestError,
        401: openai.AuthenticationError,
        404: openai.NotFoundError,
        503: openai.InternalServerError,
    }
    in_stream = openai.APIError

    def connect(self, url: str, key: str = KEY) -> Any:
        return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60)

    async def close(self, client: Any) -> None:
        client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return client.chat.completions.create(model=self.model, messages=_said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        stream = client.chat.completions.create(
            model=self.model, messages=_said(text), stream=True, **options
        )
        with closing(stream):
            for chunk in stream:
                yield _piece(chunk)

    def text_of(self, answer: Any) -> str:
        return answer.choices[0].message.content or ""


class AsyncOpenAi(OpenAi):
    """The async client, with chat completions."""

    name = "openai-async"
    is_async = True

    def connect(self, url: str, key: str = KEY) -> Any:
        return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60)

    async def close(self, client: Any) -> None:
        await client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return await client.chat.completions.create(model=self.model, messages=_said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        stream = await client.chat.completions.create(
            model=self.model, messages=_said(text), stream=True, **options
        )
        async with aclosing(_AsyncClosing(stream)) as chunks:
            async for chunk in chunks.stream:
                yield _piece(chunk)


class _AsyncClosing:
    """The stream of the async client, with the name that ``aclosing`` calls."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    async def aclose(self) -> None:
        await self.stream.close()


class OpenAiResponses(OpenAi):
    """The blocking client, with the responses API."""

    name = "openai-responses"

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return client.responses.create(model=self.model, input=_said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        with closing(
            client.responses.create(model=self.model, input=_said(text), stream=True, **options)
        ) as stream:
            for event in stream:
                yield event.delta if event.type == "response.output_text.delta" else ""

    def text_of(self, answer: Any) -> str:
        return str(answer.output_text)


class AsyncOpenAiResponses(AsyncOpenAi):
    """The async client, with the responses API."""

    name = "openai-responses-async"

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return await client.responses.create(model=self.model, input=_said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        stream = await client.responses.create(model=self.model, input=_said(text), stream=True, **options)
        async with aclosing(_AsyncClosing(stream)) as events:
            async for event in events.stream:
                yield event.delta if event.type == "response.output_text.delta" else ""

    def text_of(self, answer: Any) -> str:
        return str(answer.output_text)


def _said(text: str) -> Any:
    return [{"role": "user", "content": text}]


def _piece(chunk: Any) -> str:
    return chunk.choices[0].delta.content or "" if chunk.choices else ""
