"""Google's client: Gemini's protocol, through ``httpx2``."""

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from google import genai
from google.genai import errors, types
from tests.adapters.clients.drivers import KEY, Driver


class GenAi(Driver):
    """The blocking client."""

    name = "genai"
    refusals: ClassVar = {
        400: errors.ClientError,
        401: errors.ClientError,
        404: errors.ClientError,
        503: errors.ServerError,
    }
    in_stream = errors.APIError

    def connect(self, url: str, key: str = KEY) -> Any:
        return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url, timeout=60_000))

    async def close(self, client: Any) -> None:
        client.close()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return _bare(client.models.generate_content(model=self.model, contents=text, config=options or None))

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        stream = client.models.generate_content_stream(
            model=self.model, contents=text, config=options or None
        )
        try:
            for chunk in stream:
                yield chunk.text or ""
        finally:
            stream.close()

    def text_of(self, answer: Any) -> str:
        return answer.text or ""

    async def unjournaled(self, client: Any) -> None:
        client.models.generate_images(model="imagen-4.0-generate-001", prompt="a")


class AsyncGenAi(GenAi):
    """The async client."""

    name = "genai-async"
    is_async = True

    async def close(self, client: Any) -> None:
        client.close()
        await client.aio.aclose()

    async def ask(self, client: Any, text: str, **options: Any) -> Any:
        return _bare(
            await client.aio.models.generate_content(model=self.model, contents=text, config=options or None)
        )

    async def pieces(self, client: Any, text: str, **options: Any) -> AsyncIterator[str]:
        stream = await client.aio.models.generate_content_stream(
            model=self.model, contents=text, config=options or None
        )
        try:
            async for chunk in stream:
                yield chunk.text or ""
        finally:
            await stream.aclose()

    async def unjournaled(self, client: Any) -> None:
        await client.aio.models.generate_images(model="imagen-4.0-generate-001", prompt="a")


def _bare(answer: Any) -> Any:
    """The answer without the headers of its response, which show a replay."""
    answer.sdk_http_response = None
    return answer
