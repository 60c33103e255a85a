"""Holdfast: a loop that hands its whole state over at each step with ``run.checkpoint``, and begins with ``run.restore``.

All states are kept, as the peers do; as it comes, the last 20 would be.
"""

import asyncio
from pathlib import Path
from typing import Any

import holdfast
from bench.peers.drivers import holdfast_steps
from bench.peers.task import STEPS, text_of, work


def agent(place: Path, url: str) -> None:
    with holdfast.run("agent", store=url or place / "holdfast.db", retention=None) as run:
        state: dict[str, Any] = run.restore({"messages": []})
        while len(state["messages"]) <= STEPS:
            text = work(len(state["messages"]))
            state["messages"].append({"role": "assistant", "content": text})
            run.checkpoint(state)


fork, diff, prune = holdfast_steps.fork, holdfast_steps.diff, holdfast_steps.prune


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    async def one(name: str) -> None:
        async with holdfast.run(name, store=url or place / "holdfast.db") as run:
            messages: list[dict[str, str]] = []
            for number in range(steps):
                messages.append({"role": "assistant", "content": text_of(number)})
                await run.checkpoint({"messages": messages})

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, names))

    asyncio.run(all_of_them())
