"""Holdfast: a loop that hands its whole state over at each step with ``run.checkpoint``, and begins with ``run.restore``."""

import asyncio
from pathlib import Path
from typing import Any

import holdfast
from bench.peers.drivers import holdfast_steps
from bench.peers.task import STEPS, text_of, work


def agent(place: Path, url: str) -> None:
    with holdfast.run("agent", store=url or place / "holdfast.db") as run:
        state: dict[str, Any] = run.restore({"messages": []})
        while len(state["messages"]) <= STEPS:
            text = work(len(state["messages"]))
            state["messages"].append({"role": "assistant", "content": text})
            run.checkpoint(state)


fork = holdfast_steps.fork


def crowd(place: Path, url: str, agents: int, steps: int) -> None:
    async def one(name: str) -> None:
        async with holdfast.run(name, store=url or place / "holdfast.db") as run:
            messages: list[dict[str, str]] = []
            for number in range(steps):
                messages.append({"role": "assistant", "content": text_of(number)})
                await run.checkpoint({"messages": messages})

    async def all_of_them() -> None:
        await asyncio.gather(*(one(f"agent-{number}") for number in range(agents)))

    asyncio.run(all_of_them())
