"""LangGraph's functional API: a loop in an ``@entrypoint`` whose work is a ``@task``, with SqliteSaver and ``durability="sync"``."""

import asyncio
from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint, task

from bench.peers.drivers import langgraph_graph
from bench.peers.task import STEPS, text_of, work


def agent(place: Path, url: str) -> None:
    del url
    step = task(work)
    with SqliteSaver.from_conn_string(str(place / "langgraph.db")) as saver:

        @entrypoint(checkpointer=saver)
        def loop(begin: int) -> int:
            return len([step(number).result() for number in range(begin, STEPS + 1)])

        config: Any = {"configurable": {"thread_id": "agent"}}
        begun = saver.get_tuple(config) is not None
        loop.invoke(None if begun else 0, config, durability="sync")


prune = langgraph_graph.prune


@task
async def _worked(number: int) -> str:
    return text_of(number)


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    del url

    async def all_of_them() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(place / "langgraph.db")) as saver:

            @entrypoint(checkpointer=saver)
            async def loop(steps: int) -> int:
                return len([await _worked(number) for number in range(steps)])

            configs: list[Any] = [{"configurable": {"thread_id": name}} for name in names]
            await asyncio.gather(*(loop.ainvoke(steps, config, durability="sync") for config in configs))

    asyncio.run(all_of_them())
