"""A real client of the official SDK, 1.x or 2.x, and a real ``holdfast mcp`` in a process of its own that can be killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters

PROGRAM = """
import os, pathlib
pathlib.Path(os.environ["SERVER_PID_FILE"]).write_text(str(os.getpid()))
from holdfast.cli import main; main()
"""
WAIT_S = 60


class Reply(NamedTuple):
    """What a tool answered."""

    text: str
    facts: dict[str, Any]
    is_error: bool


class Client:
    """A connected client: ``await client("tool", name=value)``."""

    def __init__(self, session: ClientSession, pid_file: Path | None = None) -> None:
        self.session: Any = session
        self._pid_file = pid_file

    async def __call__(self, tool: str, /, **arguments: Any) -> Reply:
        answered = await self.session.call_tool(tool, arguments)
        plain = answered.model_dump(mode="json", by_alias=True)
        text = "\n".join(part["text"] for part in plain["content"])
        return Reply(text, plain.get("structuredContent") or {}, bool(plain.get("isError")))

    async def read(self, uri: str) -> str:
        """A resource."""
        return str((await self.session.read_resource(uri)).contents[0].text)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Send the server a signal; its process."""
        assert self._pid_file is not None
        pid = int(self._pid_file.read_text())
        os.kill(pid, how)
        return pid


def command(store: Path, *more: str) -> list[str]:
    """The command line of a server on this store."""
    return [sys.executable, "-c", PROGRAM, "mcp", "--store", str(store), *more]


def environment(pid_file: Path) -> dict[str, str]:
    """The environment of a server: this one's, and where it leaves its process id."""
    return {**os.environ, "SERVER_PID_FILE": str(pid_file)}


@asynccontextmanager
async def over_stdio(store: Path, *more: str) -> AsyncIterator[Client]:
    """A client with a server of its own; it goes away in the end, as clients do: by closing stdin."""
    pid_file = store.with_name(f"{store.name}.pid")
    words = command(store, *more)
    server = StdioServerParameters(
        command=words[0], args=words[1:], env=environment(pid_file), cwd=str(store.parent)
    )
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        yield Client(session, pid_file)


@contextmanager
def http_server(
    store: Path, *more: str, **variables: str
) -> Iterator[tuple[dict[str, Any], "subprocess.Popen[str]"]]:
    """A server over HTTP on a free port: what it says when it is ready, and its process."""
    process = subprocess.Popen(
        command(store, "--http", "--port", "0", "--json", *more),
        env={**environment(store.with_name("http.pid")), **variables},
        cwd=store.parent,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        yield json.loads(process.stderr.readline()), process
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Client]:
    """A client of a server over HTTP."""
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    headers = {"Authorization": f"Bearer {token}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        yield Client(session)
