"""absurd: a task whose work is ``ctx.step``, done by a worker in this process.

A task whose worker died is free again when its claim runs out, which is asked for after one second here (120 as it comes): a resume
contains that wait.
"""

import asyncio
from pathlib import Path
from typing import Any

from absurd_sdk import Absurd, AsyncAbsurd

from bench.peers.task import RESUMES, STEPS, text_of, work

CLAIM_S = 1


def agent(place: Path, url: str) -> None:
    del place
    app = Absurd(url)

    @app.register_task(name="agent")
    def loop(params: Any, ctx: Any) -> None:
        del params
        for number in range(STEPS + 1):
            ctx.step(f"work-{number}", lambda at=number: work(at))

    if not RESUMES:
        app.create_queue()
        app.spawn("agent", {})
    app.start_worker(claim_timeout=CLAIM_S, poll_interval=0.01)


def crowd(place: Path, url: str, agents: int, steps: int) -> None:
    del place

    async def all_of_them() -> None:
        app = AsyncAbsurd(url)
        left = agents

        @app.register_task(name="agent")
        async def loop(params: Any, ctx: Any) -> None:
            nonlocal left
            del params
            for number in range(steps):

                async def worked(at: int = number) -> str:
                    return text_of(at)

                await ctx.step(f"work-{number}", worked)
            left -= 1
            if not left:
                app.stop_worker()

        await app.create_queue()
        for _ in range(agents):
            await app.spawn("agent", {})
        await app.start_worker(concurrency=agents, poll_interval=0.01)

    asyncio.run(all_of_them())
