"""Google's client below the surface: the part of ``google-genai`` that sends requests, in a wrapped client.

It would send async requests through ``aiohttp`` where that is installed, and knows retries and sockets of its
own. Inside of a wrapped client everything goes through ``httpx``, where the transport is.
"""

from functools import lru_cache
from typing import Any

from holdfast.adapters.wire.unjournaled import check_passes
from holdfast.engine.run.call_site import here_now


def keep_to_httpx(sender: Any) -> None:
    """Let a copied sender of requests use nothing but its HTTP clients."""
    sender.__class__ = _kept(type(sender))  # type: ignore[arg-type]  # a class is hashable


@lru_cache
def _kept(kind: Any) -> type:
    if issubclass(kind, Sender):
        return kind  # type: ignore[no-any-return]
    return type(kind.__name__, (Sender, kind), {"__module__": kind.__module__})


class Sender:
    """What is different in a wrapped client."""

    def _use_aiohttp(self) -> bool:
        return False

    def _use_google_auth_sync(self) -> bool:
        return False  # a session of another HTTP library

    def _request(self, http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
        """Inside a run the engine waits and tries again."""
        if here_now() is None:
            return super()._request(http_request, http_options, stream)  # type: ignore[misc]
        return self._request_once(http_request, stream)  # type: ignore[attr-defined]

    async def _async_request(self, http_request: Any, http_options: Any = None, stream: bool = False) -> Any:
        if here_now() is None:
            return await super()._async_request(http_request, http_options, stream)  # type: ignore[misc]
        return await self._async_request_once(http_request, stream)  # type: ignore[attr-defined]

    def _websocket_base_url(self, *args: Any, **more: Any) -> Any:
        """Read before a socket is opened, which has no transport of ours. Refused inside a run."""
        manner = self._httpx_client._transport.wire.manner  # type: ignore[attr-defined]  # noqa: SLF001 - our own transport
        check_passes(manner.client, "", manner.passed, "websocket", "live")
        return super()._websocket_base_url(*args, **more)  # type: ignore[misc]
