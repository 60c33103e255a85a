"""DBOS: the loop as a ``@DBOS.workflow`` whose work is a ``@DBOS.step``; ``DBOS.launch`` recovers it under its id."""

import asyncio
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.peers.task import STEPS, text_of, work


def _launch(place: Path, url: str) -> None:
    where = url or f"sqlite:///{place}/dbos.sqlite"
    config: Any = {
        "name": "agent",
        "system_database_url": where,
        "log_level": "ERROR",
        "run_admin_server": False,
    }
    DBOS(config=config)


def agent(place: Path, url: str) -> None:
    _launch(place, url)
    step = DBOS.step()(work)

    @DBOS.workflow()
    def loop() -> int:
        return len([step(number) for number in range(STEPS + 1)])

    DBOS.launch()
    with SetWorkflowID("agent"):
        DBOS.start_workflow(loop).get_result()


def fork(place: Path, url: str, at: int) -> None:
    if not _LAUNCHED:
        _launch(place, url)

        @DBOS.workflow()
        def loop() -> int:  # the branch is made, and need not go on
            return 0

        DBOS.listen_queues([])
        DBOS.launch()
        _LAUNCHED.append(True)
    DBOS.fork_workflow("agent", at)


_LAUNCHED: list[bool] = []


def crowd(place: Path, url: str, agents: int, steps: int) -> None:
    _launch(place, url)

    @DBOS.step()
    async def step(number: int) -> str:
        return text_of(number)

    @DBOS.workflow()
    async def loop(steps: int) -> None:
        for number in range(steps):
            await step(number)

    async def one(name: str) -> None:
        with SetWorkflowID(name):
            handle = await DBOS.start_workflow_async(loop, steps)
        await handle.get_result()

    async def all_of_them() -> None:
        DBOS.launch()
        await asyncio.gather(*(one(f"agent-{number}") for number in range(agents)))

    asyncio.run(all_of_them())
    DBOS.destroy()
