"""Groq's client: OpenAI's protocol under another path, through ``httpx``."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, ClassVar

import groq
from tests.adapters.clients.drivers import KEY, Driver


def _said(text: str) -> Any:
    return [{"role": "user", "content": text}]


class Groq(Driver):
    """The blocking client."""

    name = "groq"
    refusals: ClassVar = {
        400: groq.BadRequestError,
        401: groq.AuthenticationError,
        404: groq.NotFoundError,
        503: groq.InternalServerError,
    }
    in_stream = groq.APIError

    def connect(self, url: str, key: str = KEY) -> Any:
        return groq.Groq(base_url=url, api_key=key, max_retries=0, timeout=60)

    async def close(self, client: Any) -> None:
        client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return client.chat.completions.create(model=self.model, messages=_said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        given = client.chat.completions.create(model=self.model, messages=_said(text), stream=True, **options)
        with given as stream:
            for chunk in stream:
                yield chunk.choices[0].delta.content or "" if chunk.choices else ""

    def text_of(self, answer: Any) -> str:
        return answer.choices[0].message.content or ""

    async def unjournaled(self, client: Any) -> None:
        client.audio.speech.create(input="a", model="m", voice="v")


class AsyncGroq(Groq):
    """The async client."""

    name = "groq-async"
    is_async = True

    def connect(self, url: str, key: str = KEY) -> Any:
        return groq.AsyncGroq(base_url=url, api_key=key, max_retries=0, timeout=60)

    async def close(self, client: Any) -> None:
        await client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return await client.chat.completions.create(model=self.model, messages=_said(text), **options)

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        given = await client.chat.completions.create(
            model=self.model, messages=_said(text), stream=True, **options
        )
        async with given as stream, aclosing(aiter(stream)) as chunks:
            async for chunk in chunks:
                yield chunk.choices[0].delta.content or "" if chunk.choices else ""

    async def unjournaled(self, client: Any) -> None:
        await client.audio.speech.create(input="a", model="m", voice="v")
