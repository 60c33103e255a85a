"""LangGraph's functional API: a loop in an ``@entrypoint`` whose work is a ``@task``, with SqliteSaver and ``durability="sync"``."""

from pathlib import Path
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task

from bench.peers.task import STEPS, work


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
