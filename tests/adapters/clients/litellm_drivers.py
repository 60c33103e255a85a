"""``litellm``: a module of functions, here over OpenAI's protocol."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import openai
from tests.adapters.clients.drivers import KEY, Driver

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it asks the network when it is imported

import litellm

litellm.suppress_debug_info = True  # it prints advice at every error


def _said(text: str) -> Any:
    return [{"role": "user", "content": text}]


class LiteLlm(Driver):
    """The blocking functions. Each call gets the client below, so that it can be closed."""

    name = "litellm"
    is_client = False
    refusals: ClassVar = {
        400: litellm.BadRequestError,
        401: litellm.AuthenticationError,
        404: litellm.NotFoundError,
        503: litellm.ServiceUnavailableError,
    }
    in_stream = litellm.APIError
    tells_errors = False
    below: Any = None
    loop: Any = None
    url = ""

    def connect(self, url: str, key: str = KEY) -> Any:
        self.url = f"{url}/v1"
        self.below = openai.OpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=60)
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)  # the functions take the loop that there is, or leave one open
        return litellm

    async def close(self, client: Any) -> None:
        self.below.close()
        asyncio.set_event_loop(None)
        self.loop.close()

    def _given(self, text: str, options: dict[str, Any]) -> dict[str, Any]:
        return {"messages": _said(text), **self.reach, **options}

    @property
    def reach(self) -> dict[str, Any]:
        """How a function reaches the scripted provider."""
        given = {"model": self.model, "custom_llm_provider": "openai", "api_base": self.url, "api_key": KEY}
        return {**given, "client": self.below, "max_retries": 0}

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return _bare(client.completion(**self._given(text, options)))

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        stream = client.completion(**self._given(text, options), stream=True)
        try:
            for chunk in stream:
                yield chunk.choices[0].delta.content or "" if chunk.choices else ""
        finally:
            if hasattr(stream, "close"):
                stream.close()

    def text_of(self, answer: Any) -> str:
        return answer.choices[0].message.content or ""

    async def unjournaled(self, client: Any) -> None:
        client.image_generation(prompt="a", **{**self.reach, "model": "openai/m"})


class AsyncLiteLlm(LiteLlm):
    """The async functions."""

    name = "litellm-async"
    is_async = True

    def connect(self, url: str, key: str = KEY) -> Any:
        self.url = f"{url}/v1"
        self.below = openai.AsyncOpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=60)
        return litellm

    async def close(self, client: Any) -> None:
        await self.below.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return _bare(await client.acompletion(**self._given(text, options)))

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        stream = await client.acompletion(**self._given(text, options), stream=True)
        try:
            async for chunk in stream:
                yield chunk.choices[0].delta.content or "" if chunk.choices else ""
        finally:
            if hasattr(stream, "aclose"):
                await stream.aclose()

    async def unjournaled(self, client: Any) -> None:
        await client.aimage_generation(prompt="a", **{**self.reach, "model": "openai/m"})


def _bare(answer: Any) -> Any:
    """The answer without what is hidden in it: which server, at what cost, how fast."""
    answer._hidden_params = {}
    return answer
