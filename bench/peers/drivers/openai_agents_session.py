"""OpenAI Agents SDK: what ``SQLiteSession`` keeps of an agent, its conversation, one message a step; no runner and no model."""

import asyncio
from pathlib import Path
from typing import Any

from agents import SQLiteSession

from bench.peers.task import STEPS, text_of, work


def agent(place: Path, url: str) -> None:
    del url

    async def loop() -> None:
        session = SQLiteSession("agent", str(place / "sessions.db"))
        history: list[Any] = await session.get_items()
        while len(history) <= STEPS:
            history.append({"role": "assistant", "content": work(len(history))})
            await session.add_items(history[-1:])

    asyncio.run(loop())


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    del url

    async def one(name: str) -> None:
        session = SQLiteSession(name, str(place / "sessions.db"))
        for number in range(steps):
            await session.add_items([{"role": "assistant", "content": text_of(number)}])

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, names))

    asyncio.run(all_of_them())


def prune(place: Path, url: str, names: list[str]) -> None:
    del url

    async def all_of_them() -> None:
        for name in names:
            await SQLiteSession(name, str(place / "sessions.db")).clear_session()

    asyncio.run(all_of_them())
