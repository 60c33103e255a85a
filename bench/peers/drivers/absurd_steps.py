"""absurd: a task whose work is ``ctx.step``, done by a worker in this process.

A task whose worker died is free again when its claim runs out, which is asked for after one second here (120 as it comes): a resume
contains that wait.
"""

import asyncio
from pathlib import Path
from typing import Any

import psycopg
from absurd_sdk import Absurd, AsyncAbsurd

from bench.peers.task import RESUMES, STEPS, text_of, work

CLAIM_S = 1


def agent(place: Path, url: str) -> None:
    del place
    app = Absurd(url)

    @app.register_task(name="agent")
    def loop(params: Any, ctx: Any) -> None:
        del params
        history = [ctx.step(f"work-{number}", lambda at=number: work(at)) for number in range(STEPS + 1)]
        assert len(history) > STEPS

    if not RESUMES:
        app.create_queue()
        app.spawn("agent", {})
    app.start_worker(claim_timeout=CLAIM_S, poll_interval=0.01)


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    del place

    async def all_of_them() -> None:
        app = AsyncAbsurd(url)
        left = len(names)

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
        for _ in names:
            await app.spawn("agent", {})
        await app.start_worker(concurrency=len(names), poll_interval=0.01)

    asyncio.run(all_of_them())


def prune(place: Path, url: str, names: list[str]) -> None:
    """What ``absurdctl cleanup`` calls: finished tasks, the oldest first."""
    del place
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT absurd.cleanup_tasks('default', 0, %s)", (len(names),)).fetchone()
    assert row == (len(names),)
