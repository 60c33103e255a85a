"""How clients reach the server: over stdin and stdout, or over HTTP on this machine with a token.

However the server ends (the client disconnects, SIGTERM, an interrupt), its runs stay resumable. Only SIGKILL
leaves them held; then the next server takes them over.
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

from holdfast import limits
from holdfast.api.store.store import Store
from holdfast.mcp import sdk
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.server import build

HOST: Final = "127.0.0.1"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SHUTDOWN_S: Final = 2
"""How long open requests may take when the server ends; streams never end by themselves."""


async def serve_stdio(store: Store, *, all_tools: bool = False) -> None:
    """Serve the client at the other end of stdin and stdout, until it disconnects."""
    holder = HeldRuns(store, os.getcwd())  # noqa: PTH109
    reply = _end_signal()
    serving = asyncio.create_task(build(holder, all_tools=all_tools).run_stdio_async())
    ending = asyncio.create_task(reply.wait())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    await holder.leave_all()
    if serving.done():
        ending.cancel()
        await serving
        return
    # A thread of the SDK reads stdin, and only a line or an end of file ends it: joining it could wait for
    # ever.
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(0)


async def serve_http(
    store: Store, port: int, token: str, ready: Callable[[str], None], *, all_tools: bool = False
) -> None:
    """Serve clients of this machine that have the token, until a signal ends it. Raises OSError.

    ``ready`` gets the address.
    """
    import uvicorn

    holder = HeldRuns(store, os.getcwd())  # noqa: PTH109
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
        address = f"{HOST}:{listening.getsockname()[1]}"
        # uvicorn re-raises a signal when it is done; this keeps it from ending us before we have left our
        # runs
        _end_signal()
        app = Guard(sdk.http_app(build(holder, all_tools=all_tools)), token, address)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_S)
        ready(f"http://{address}{sdk.PATH}")
        try:
            await uvicorn.Server(config).serve(sockets=[listening])
        finally:
            await holder.leave_all()


def _end_signal() -> asyncio.Event:
    """An event that is set when a signal asks this process to end."""
    reply = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError):
            # a platform without signal handlers in its event loop
            loop.add_signal_handler(one, reply.set)
    return reply


class Guard:
    """Accepts a request only if it is for this address and has the token.

    A web page in a browser on this machine can send requests here too, under a host name of its own that
    resolves to this address (DNS rebinding). So the host name is compared before anything else.
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
            body = await _body_of(receive) if scope.get("method") == "POST" else b""
            if body is None:
                told = f"the request has more than {limits.MCP_BODY_BYTES_MAX:,} bytes\n"
                await _refuse(send, 413, told.encode())
            else:
                await self._app(scope, _again(body, receive), send)

    def _is_known(self, authorization: bytes) -> bool:
        scheme, _, given = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and compare_digest(given.strip(), self._token)


async def _body_of(receive: Any) -> bytes | None:
    """The body of a request; None as soon as it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > limits.MCP_BODY_BYTES_MAX:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Any) -> Any:
    """What gives the application the body that was read, and then what comes behind it."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Any:
        return waiting.pop() if waiting else await receive()

    return given


async def _refuse(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="holdfast"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
