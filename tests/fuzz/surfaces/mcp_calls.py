"""Calls of the MCP server's tools: the input is a line of JSON a call, ``{"tool": …, "arguments": {…}}``."""

import asyncio
import tempfile
from contextlib import suppress
from typing import Any

from orjson import JSONDecodeError, loads
from tests.fuzz.scratch import scratch_store
from tests.support.hostile import look_at_everything

import holdfast
from holdfast.mcp.held_runs import HeldRuns
from holdfast.mcp.server import build
from mcp.client import Client

CALLS_MAX = 6


def check(data: bytes) -> None:
    """Every call is answered, if only with a refusal; whatever it has written can be looked at afterwards."""
    calls: list[dict[str, Any]] = []
    for line in data.splitlines()[:CALLS_MAX]:
        with suppress(JSONDecodeError):
            call = loads(line)
            if isinstance(call, dict) and isinstance(call.get("arguments", {}), dict):
                calls.append(call)
    if not calls:
        return
    with scratch_store() as store, tempfile.TemporaryDirectory() as directory:
        asyncio.run(_answer(store, calls, directory))
        look_at_everything(store)


async def _answer(store: holdfast.Store, calls: list[dict[str, Any]], directory: str) -> None:
    holder = HeldRuns(store, directory)
    try:
        async with Client(build(holder, all_tools=True)) as client:
            for call in calls:
                arguments = dict(call.get("arguments", {}))
                if "path" in arguments:  # a file of this machine: only ones that this test may make
                    arguments["path"] = f"{directory}/{str(arguments['path']).replace('/', '_')[:40]}"
                answer = await asyncio.wait_for(client.call_tool(str(call.get("tool")), arguments), 60)
                told = getattr(answer.content[0], "text", "") if answer.content else ""
                assert not answer.is_error or answer.structured_content, (call, told)
    finally:
        await holder.leave_all()
