"""LetItLoop: the loop as a ``@durable`` function whose work is ``step``."""

import asyncio
from pathlib import Path

from letitloop import async_step, durable, durable_async, step

from bench.peers.task import STEPS, text_of, work


def agent(place: Path, url: str) -> None:
    del url

    @durable(goal_id="agent", wal_dir=str(place / "agent"))
    def loop() -> int:
        return len([step(f"work-{number}", work, number) for number in range(STEPS + 1)])

    loop()


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    del url

    async def worked(number: int) -> str:
        return text_of(number)

    async def one(name: str) -> None:
        @durable_async(goal_id=name, wal_dir=str(place / name))
        async def loop() -> None:
            for number in range(steps):
                await async_step(f"work-{number}", worked, number)

        await loop()

    async def all_of_them() -> None:
        await asyncio.gather(*map(one, names))

    asyncio.run(all_of_them())
