"""OpenAI Agents SDK: what ``SQLiteSession`` keeps of an agent, its conversation, one message a step; no runner and no model."""

import asyncio
from pathlib import Path

from agents import SQLiteSession

from bench.peers.task import STEPS, text_of, work


def agent(place: Path, url: str) -> None:
    del url

    async def loop() -> None:
        session = SQLiteSession("agent", str(place / "sessions.db"))
        for number in range(len(await session.get_items()), STEPS + 1):
            await session.add_items([{"role": "assistant", "content": work(number)}])

    asyncio.run(loop())


def crowd(place: Path, url: str, agents: int, steps: int) -> None:
    del url

    async def one(name: str) -> None:
        session = SQLiteSession(name, str(place / "sessions.db"))
        for number in range(steps):
            await session.add_items([{"role": "assistant", "content": text_of(number)}])

    async def all_of_them() -> None:
        await asyncio.gather(*(one(f"agent-{number}") for number in range(agents)))

    asyncio.run(all_of_them())
