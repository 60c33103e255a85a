"""The MCP server beside a bare one of the same SDK: what recording adds to a call, what it leaves on disk, and to the start."""

import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp.client.stdio import stdio_client

from bench.measuring import Figure, fresh_interpreter_ms, size_on_disk
from mcp import ClientSession, StdioServerParameters

STEPS = 150
SDK = """
try:
    from mcp.server.mcpserver import MCPServer as Server
except ModuleNotFoundError:
    from mcp.server.fastmcp import FastMCP as Server
"""
BARE = f"""{SDK}
server = Server("bare", log_level="WARNING")

@server.tool()
def echo(text: str) -> str:
    return text

server.run()
"""
OURS = "from holdfast.cli import main; main()"


@asynccontextmanager
async def connected(*words: str) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(command=sys.executable, args=[*words], env=dict(os.environ))
    async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
        await session.initialize()
        yield session


async def measure(store: Path) -> tuple[float, float]:
    """The median time of two calls that do nothing, and of a step that is begun and ended; in ms, taken in turns."""
    bare_ms, step_ms = [], []
    async with connected("-c", BARE) as bare, connected("-c", OURS, "mcp", "--store", str(store)) as ours:
        await ours.call_tool("start_run", {"run": "bench", "goal": "measure"})
        for number in range(STEPS):
            began = time.perf_counter()
            for _ in range(2):
                await bare.call_tool("echo", {"text": "x" * 200})
            between = time.perf_counter()
            go: Any = await ours.call_tool("begin_step", {"name": "send", "arguments": {"n": number}})
            step = go.model_dump(by_alias=True)["structuredContent"]["step"]
            await ours.call_tool("finish_step", {"step": step, "result": "x" * 200})
            bare_ms.append((between - began) * 1000)
            step_ms.append((time.perf_counter() - between) * 1000)
    return statistics.median(bare_ms), statistics.median(step_ms)


def figures(place: Path) -> list[Figure]:
    """A once step over stdio: both of its calls are synced to disk before they are answered."""
    store = place / "runs.db"
    bare_ms, step_ms = asyncio.run(measure(store))
    sdk_ms, ours_ms = fresh_interpreter_ms(
        [f"{SDK}\nimport uvicorn", "import holdfast.mcp.transports"], rounds=5
    )
    return [
        Figure(
            "MCP: a once step (begin, finish) over two bare calls",
            step_ms - bare_ms,
            20.0,
            "ms",
            f"{step_ms:.1f} ms, bare {bare_ms:.1f} ms; two syncs",
        ),
        Figure(
            "MCP: bytes on disk per step with a 200-byte result",
            size_on_disk(store) / STEPS,
            None,
            "bytes",
            f"{STEPS} steps; the database and its log",
        ),
        Figure(
            "MCP: start of the server over the bare SDK's",
            ours_ms / sdk_ms,
            None,
            "×",
            f"{ours_ms:.0f} ms, the SDK alone {sdk_ms:.0f} ms",
        ),
    ]
