"""The same graph on LangGraph's SqliteSaver and on ours, in turn, on the same disk; and one of three tools killed.

``make bench-frameworks`` runs this where LangGraph and its saver are installed. The saver writes the whole state at every step:
fewer steps than the 1,000 of the other figures keep it within seconds, and its size is told for those.
"""

import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.measuring import Figure, size_on_disk
from bench.texts import prose, turns

STEPS = 250
STEPS_OF_ALL = 1_000
LATE = 40
ROUNDS = 7
PROGRAM = """
import os, sys
from pathlib import Path
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

def act(name):
    with open("ledger", "a") as ledger:
        ledger.write(name + "\\n")
    if name == "third" and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), 9)
    return name

def made(name):
    return tool(name, description="act")(lambda: act(name))

def model(state):
    if isinstance(state["messages"][-1], HumanMessage):
        calls = [{"name": name, "args": {}, "id": name} for name in ("first", "second", "third")]
        return {"messages": [AIMessage("", id="a", tool_calls=calls)]}
    return {"messages": [AIMessage("done", id="b")]}

tools = [made(name) for name in ("first", "second", "third")]
if sys.argv[1] == "holdfast":
    from holdfast.adapters.langgraph import HoldfastSaver, durable_tools
    tools = durable_tools(tools, {name: "idempotent" for name in ("first", "second", "third")})
    saver = HoldfastSaver("sqlite:///h.db")
else:
    import sqlite3
    from langgraph.checkpoint.sqlite import SqliteSaver
    saver = SqliteSaver(sqlite3.connect("l.db", check_same_thread=False))
builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_node("tools", ToolNode(tools))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else "__end__")
builder.add_edge("tools", "model")
graph = builder.compile(checkpointer=saver)
config = {"configurable": {"thread_id": "t"}, "max_concurrency": 1}
begun = saver.get_tuple(config) is not None
graph.invoke(None if begun else {"messages": [HumanMessage("go", id="q")]}, config, durability="sync")
"""


def figures(place: Path) -> Iterator[Figure]:
    """Bytes and times of a growing conversation; what a kill repeats; what importing us costs."""
    yield from _growth(place)
    yield _repeated(place)


def _growth(place: Path) -> Iterator[Figure]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    from holdfast.adapters.langgraph import HoldfastSaver

    ours, theirs = place / "holdfast.db", place / "langgraph.db"
    with SqliteSaver.from_conn_string(str(theirs)) as their_saver:
        our_saver = HoldfastSaver(ours)
        our_times, their_times = _timed(our_saver), _timed(their_saver)
        graphs = [_growing(saver) for saver in (our_saver, their_saver)]
        config: Any = {"configurable": {"thread_id": "t"}}
        for graph in graphs:
            graph.invoke({"messages": []}, config)
        for _, new in zip(
            range(STEPS // 2), turns(prose()), strict=False
        ):  # a turn is two puts of the grown state
            for graph in graphs:
                graph.invoke({"messages": [*new]}, config)
        began = time.perf_counter()
        HoldfastSaver(our_saver.store).get_tuple(config)
        cold_ms = (time.perf_counter() - began) * 1e3
        our_saver.store.close()
    sizes = size_on_disk(theirs), size_on_disk(ours)
    times = [statistics.median(taken[-LATE:]) * 1e3 for taken in (their_times, our_times)]
    facts = (
        f"{sizes[0]:,} and {sizes[1]:,} bytes; theirs grows with the square of the steps, ours with the steps"
    )
    subject = f"a thread of {len(our_times):,} checkpoints, growing by 5 KB: SqliteSaver's file / ours"
    yield Figure(subject, sizes[0] / sizes[1], 50, "×", facts, at_least=True)
    facts = f"p50 of the last {LATE}: {times[0]:.1f} and {times[1]:.1f} ms; our cold read: {cold_ms:.0f} ms"
    yield Figure("its late checkpoints: SqliteSaver.put / ours", times[0] / times[1], None, "×", facts)


def _growing(saver: Any) -> Any:
    from langgraph.graph import START, MessagesState, StateGraph

    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", lambda _: {"messages": []})
    builder.add_edge(START, "model")
    return builder.compile(checkpointer=saver)


def _timed(saver: Any) -> list[float]:
    """How long its puts take, as they are made."""
    taken: list[float] = []
    put: Callable[..., Any] = saver.put

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return put(*args, **kwargs)
        finally:
            taken.append(time.perf_counter() - began)

    saver.put = timed
    return taken


def _repeated(place: Path) -> Figure:
    """Killed inside the third of three tools, one after the other, and told to go on: effects that were made again."""
    again = {}
    for whose in ("langgraph", "holdfast"):
        home = place / whose
        home.mkdir()
        for _ in range(2):
            subprocess.run([sys.executable, "-c", PROGRAM, whose], cwd=home, check=False, capture_output=True)
        made = Counter((home / "ledger").read_text().split())
        again[whose] = made["first"] + made["second"] - 2
    facts = f"of the two that were done: SqliteSaver repeats {again['langgraph']}"
    return Figure("killed inside the third tool: finished effects repeated", again["holdfast"], 0, "", facts)
