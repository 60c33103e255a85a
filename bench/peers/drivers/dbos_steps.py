"""DBOS: the loop as a ``@DBOS.workflow`` whose work is a ``@DBOS.step``; ``DBOS.launch`` recovers it under its id."""

import asyncio
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.peers.task import STEPS, text_of, work


def _configure(place: Path, url: str) -> None:
    where = url or f"sqlite:///{place}/dbos.sqlite"
    config: Any = {
        "name": "agent",
        "system_database_url": where,
        "log_level": "ERROR",
        "run_admin_server": False,
    }
    DBOS(config=config)


def agent(place: Path, url: str) -> None:
    _configure(place, url)
    step = DBOS.step()(work)

    @DBOS.workflow()
    def loop() -> int:
        return len([step(number) for number in range(STEPS + 1)])

    DBOS.launch()
    with SetWorkflowID("agent"):
        DBOS.start_workflow(loop).get_result()


@DBOS.step()
async def _step(number: int) -> str:
    return text_of(number)


@DBOS.workflow()
async def _loop(steps: int) -> None:
    for number in range(steps):
        await _step(number)


_LAUNCHED: list[bool] = []


def _launch(place: Path, url: str) -> None:
    """Once in a process, as a program does when it starts. A branch that is made need not go on: no queue is listened to."""
    if not _LAUNCHED:
        _configure(place, url)
        DBOS.listen_queues([])
        DBOS.launch()
        _LAUNCHED.append(True)


def fork(place: Path, url: str, at: int) -> None:
    _launch(place, url)
    DBOS.fork_workflow("agent", at)


def prune(place: Path, url: str, names: list[str]) -> None:
    _launch(place, url)
    DBOS.delete_workflows(names)


_LOOP = asyncio.new_event_loop()
"""It keeps to the first one that it sees."""


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    async def one(name: str) -> None:
        with SetWorkflowID(name):
            handle = await DBOS.start_workflow_async(_loop, steps)
        await handle.get_result()

    async def all_of_them() -> None:
        _launch(place, url)
        await asyncio.gather(*map(one, names))

    _LOOP.run_until_complete(all_of_them())
