"""Requests of a wrapped HTTP client that are no model calls: they are passed on as they are."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx

import holdfast


class Upstream(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Notes whether a body was read before it came here."""

    def __init__(self) -> None:
        self.was_read: list[bool] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.was_read.append(hasattr(request, "_content"))
        return httpx.Response(200)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


def test_an_upload_is_not_read_into_memory() -> None:
    """Blocking and async. Seen before: the async transport read every body, of whatever size."""
    upstream = Upstream()

    def body() -> Iterator[bytes]:
        yield b"a"

    async def body_async() -> AsyncIterator[bytes]:
        yield b"a"

    async def main() -> None:
        async with httpx.AsyncClient(transport=upstream) as plain:
            await holdfast.wrap(plain).post("http://provider/v1/files", content=body_async())

    with httpx.Client(transport=upstream) as plain:
        holdfast.wrap(plain).post("http://provider/v1/files", content=body())
    asyncio.run(main())
    assert upstream.was_read == [False, False]
