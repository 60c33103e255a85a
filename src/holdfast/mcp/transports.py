"""How clients reach the server: over stdin and stdout, or over HTTP on this machine with a token.

Whatever ends the server, its runs are left resumable: the client went away, SIGTERM or an interrupt came. Only SIGKILL leaves
them as they are; then the next server takes them over.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from typing import Any, Final

from holdfast.api.store.store import Store
from holdfast.mcp import sdk
from holdfast.mcp.held_runs import Holder
from holdfast.mcp.server import build

HOST: Final = "127.0.0.1"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SHUTDOWN_S: Final = 2
"""How long requests that are under way may take when the server is told to end; streams never end by themselves."""


async def serve_stdio(store: Store) -> None:
    """Serve the client at the other end of stdin and stdout, until it goes away."""
    holder = Holder(store, os.getcwd())  # noqa: PTH109
    told = _told_to_end()
    serving = asyncio.create_task(build(holder).run_stdio_async())
    ending = asyncio.create_task(told.wait())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    await holder.let_go_all()
    if serving.done():
        ending.cancel()
        await serving
        return
    # A thread of the SDK's reads stdin, and nothing ends it but a line or an end of file: waiting for it would be for ever.
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(0)


async def serve_http(store: Store, port: int, token: str, ready: Callable[[str], None]) -> None:
    """Serve clients of this machine that know the token, until told to end. ``ready`` is given the address. OSError."""
    import uvicorn

    holder = Holder(store, os.getcwd())  # noqa: PTH109
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
        address = f"{HOST}:{listening.getsockname()[1]}"
        _told_to_end()  # so that a signal, which uvicorn passes on when it is done, does not end us before we have left our runs
        app = Guard(sdk.http_app(build(holder)), token, address)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_S)
        ready(f"http://{address}{sdk.PATH}")
        try:
            await uvicorn.Server(config).serve(sockets=[listening])
        finally:
            await holder.let_go_all()


def _told_to_end() -> asyncio.Event:
    """Set when this process is told to end."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError):  # a platform without signal handlers in its loop
            loop.add_signal_handler(one, told.set)
    return told


class Guard:
    """Lets a request through that is meant for this very address and brings the token.

    A web page that a browser on this machine shows can send requests here too, under a name of its own that leads to this
    address: so the names are compared before anything else.
    """

    def __init__(self, app: Any, token: str, address: str) -> None:
        self._app = app
        self._token = token.encode()
        port = address.rpartition(":")[2]
        self._hosts = {f"{host}:{port}".encode() for host in (HOST, "localhost")}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer 403 or 401, or let the application answer."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope.get("headers", ()))
        origin = headers.get(b"origin")
        if headers.get(b"host") not in self._hosts or (origin is not None and origin not in self._origins):
            await _refuse(send, 403, b"this server answers to its own address only\n")
        elif not self._is_known(headers.get(b"authorization", b"")):
            await _refuse(send, 401, b"a token is needed: Authorization: Bearer ...\n")
        else:
            await self._app(scope, receive, send)

    def _is_known(self, authorization: bytes) -> bool:
        scheme, _, given = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(given.strip(), self._token)


async def _refuse(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="holdfast"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
