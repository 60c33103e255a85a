"""Work in a run that fails after it, and in the attempt after that."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.agent_framework.scripted import close_clients

import holdfast


def ledger() -> list[str]:
    return Path("ledger").read_text().splitlines() if Path("ledger").exists() else []


async def in_run(url: str, work: Callable[[], Awaitable[Any]], *, fails: bool = False) -> Any:
    try:
        async with holdfast.run("a", store=url):
            made = await work()
            if fails:
                raise ZeroDivisionError
            return made
    finally:
        await close_clients()


def twice(url: str, work: Callable[[], Awaitable[Any]]) -> Any:
    """What the work gives in a run that failed after it and is resumed."""
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_run(url, work, fails=True))
    return asyncio.run(in_run(url, work))
