"""Serves an application on a socket of this machine, for as long as a block lasts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import uvicorn

if TYPE_CHECKING:
    import socket

HOST: Final = "127.0.0.1"
_SHUTDOWN_S: Final = 2
_KEEP_ALIVE_S: Final = 3600
"""Longer than any client keeps an idle connection: one that we close may just be taken for the next call."""


@asynccontextmanager
async def served(application: Any, listening: "socket.socket") -> AsyncIterator[None]:
    """Serve an ASGI application inside the block."""
    config = uvicorn.Config(
        application,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The signals are the program's."""
        yield
