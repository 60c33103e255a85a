"""LangGraph: a graph of one node that loops, with its own savers and ``durability="sync"``, the strictest mode.

``graph.invoke(None, config)`` goes on after a kill, as its documentation gives it; a branch is ``update_state`` on an older checkpoint.
"""

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

from bench.peers.task import STEPS, text_of, work


class State(TypedDict):
    messages: Annotated[list[dict[str, str]], operator.add]


STATE: type[Any] = State


def _graph(node: Any, steps: int, saver: Any) -> Any:
    builder: Any = StateGraph(STATE)
    builder.add_node("work", node)
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: "work" if len(state["messages"]) < steps else END)
    return builder.compile(checkpointer=saver)


def _act(state: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": work(len(state["messages"]))}]}


def _saver(place: Path, url: str) -> Any:
    if url:
        from langgraph.checkpoint.postgres import PostgresSaver

        return PostgresSaver.from_conn_string(url)
    from langgraph.checkpoint.sqlite import SqliteSaver

    return SqliteSaver.from_conn_string(str(place / "langgraph.db"))


def agent(place: Path, url: str) -> None:
    with _saver(place, url) as saver:
        if url:
            saver.setup()
        graph = _graph(_act, STEPS + 1, saver)
        config: Any = {"configurable": {"thread_id": "agent"}, "recursion_limit": STEPS + 10}
        begun = saver.get_tuple(config) is not None
        graph.invoke(None if begun else {"messages": []}, config, durability="sync")


def fork(place: Path, url: str, at: int) -> None:
    with _saver(place, url) as saver:
        graph = _graph(_act, STEPS + 1, saver)
        config: Any = {"configurable": {"thread_id": "agent"}}
        if not _FOUND:  # who branches knows the checkpoint: to look for it takes much longer
            _FOUND.extend(graph.get_state_history(config, filter={"step": at}, limit=1))
        graph.update_state(_FOUND[0].config, {"messages": []})


_FOUND: list[Any] = []


def crowd(place: Path, url: str, names: list[str], steps: int) -> None:
    async def act(state: Any) -> dict[str, Any]:
        return {"messages": [{"role": "assistant", "content": text_of(len(state["messages"]))}]}

    async def all_of_them() -> None:
        if url:
            from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

            opened: Any = AsyncPostgresSaver.from_conn_string(url)
        else:
            from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

            opened = AsyncSqliteSaver.from_conn_string(str(place / "langgraph.db"))
        async with opened as saver:
            await saver.setup()
            graph = _graph(act, steps, saver)
            configs: list[Any] = [
                {"configurable": {"thread_id": name}, "recursion_limit": steps + 10} for name in names
            ]
            await asyncio.gather(
                *(graph.ainvoke({"messages": []}, config, durability="sync") for config in configs)
            )

    asyncio.run(all_of_them())


def prune(place: Path, url: str, names: list[str]) -> None:
    with _saver(place, url) as saver:
        if url:
            saver.prune(names, strategy="delete")
        else:
            for name in names:  # this saver has no ``prune``
                saver.delete_thread(name)
