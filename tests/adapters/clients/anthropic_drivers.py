"""Anthropic's client, through ``httpx2``; its streams are read by its own accumulating helper."""

from collections.abc import AsyncIterator
from typing import Any, ClassVar

import anthropic
from tests.adapters.clients.drivers import KEY, Driver


class Anthropic(Driver):
    """The blocking client."""

    name = "anthropic"
    model = "claude-next"
    refusals: ClassVar = {
        400: anthropic.BadRequestError,
        401: anthropic.AuthenticationError,
        404: anthropic.NotFoundError,
        503: anthropic.InternalServerError,
    }
    in_stream = anthropic.APIStatusError

    def connect(self, url: str, key: str = KEY) -> Any:
        return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=60)

    async def close(self, client: Any) -> None:
        client.close()

    def request(self, text: str, **options: Any) -> dict[str, Any]:
        """What is asked."""
        messages = [{"role": "user", "content": text}]
        return {"model": self.model, "max_tokens": 4000, "messages": messages, **options}

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return client.messages.create(**self.request(text, **options))

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        with client.messages.stream(**self.request(text, **options)) as stream:
            for piece in stream.text_stream:
                yield piece

    def text_of(self, answer: Any) -> str:
        return "".join(block.text for block in answer.content if block.type == "text")

    async def unjournaled(self, client: Any) -> None:
        client.messages.batches.create(requests=[])


class AsyncAnthropic(Anthropic):
    """The async client."""

    name = "anthropic-async"
    is_async = True

    def connect(self, url: str, key: str = KEY) -> Any:
        return anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0, timeout=60)

    async def close(self, client: Any) -> None:
        await client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return await client.messages.create(**self.request(text, **options))

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        async with client.messages.stream(**self.request(text, **options)) as stream:
            async for piece in stream.text_stream:
                yield piece

    async def unjournaled(self, client: Any) -> None:
        await client.messages.batches.create(requests=[])
