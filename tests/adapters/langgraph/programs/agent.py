"""A graph with a scripted model and three tools, to be killed anywhere: ``agent.py sync|async|stream|ask [TOOL]``.

Started again, it goes on with its thread. Each tool leaves a line in ``ledger``; a tool that is named kills the process behind
its line, once. What it comes to lies in ``result``.
"""

import asyncio
import os
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver, durable_tools

THREE = ("search", "pay", "mail")
CONFIG: Any = {"configurable": {"thread_id": "t"}}


def made(name: str, mode: str, killer: str) -> BaseTool:
    """One tool: its effect happens once, and whoever asks later finds it in the ledger."""

    def act(n: int) -> str:
        if mode == "ask" and name == "mail" and interrupt("send it?") != "yes":
            return "not sent"
        with Path("ledger").open("a") as ledger:
            ledger.write(f"{name} {n}\n")
        if killer == name and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), SIGKILL)
        return f"{name} {n}"

    def look(n: int) -> holdfast.Done | holdfast.NotDone:
        lines = Path("ledger").read_text().splitlines() if Path("ledger").exists() else []
        return holdfast.Done(f"{name} {n}") if f"{name} {n}" in lines else holdfast.NotDone()

    declare = holdfast.tool(effect="once", name=name, verify=look, settle_s=0)
    if mode == "async":

        async def act_async(n: int) -> str:
            """Act."""
            await asyncio.sleep(0)
            return act(n)

        return tool(name, description="Act.")(declare(act_async))
    return tool(name, description="Act.")(declare(act))


def model(state: MessagesState) -> dict[str, Any]:
    """Call all three, then tell what they said."""
    if isinstance(state["messages"][-1], HumanMessage):
        calls = [{"name": name, "args": {"n": n}, "id": f"call-{name}"} for n, name in enumerate(THREE)]
        return {"messages": [AIMessage("", id="asking", tool_calls=calls)]}
    said = [str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)]
    return {"messages": [AIMessage("; ".join(said), id="answer")]}


def graph_of(mode: str, killer: str = "") -> Any:
    """The graph on the store of the environment."""
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode(durable_tools([made(name, mode, killer) for name in THREE])))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else "__end__")
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=HoldfastSaver())


def given(state: Any) -> Any:
    """What to go on with: the question, an answer to an interrupt, or nothing but the thread itself."""
    if not state.created_at:
        return {"messages": [HumanMessage("go", id="question")]}
    return Command(resume="yes") if state.interrupts else None


def is_over(state: Any) -> bool:
    """Whether the answer is there. ``next`` does not tell: it is empty, too, where all tasks have written and nobody took it in."""
    messages = state.values.get("messages")
    return bool(messages) and messages[-1].id == "answer"


async def awaited(graph: Any) -> None:
    """One turn, awaiting."""
    async for _ in graph.astream(given(await graph.aget_state(CONFIG)), CONFIG, stream_mode="updates"):
        pass


def main(mode: str, killer: str = "") -> None:
    """Turns, until nothing is left to be done: one, and one more behind an interrupt."""
    graph = graph_of(mode, killer)
    for _ in range(2 if mode == "ask" else 1):
        state = graph.get_state(CONFIG)
        if is_over(state):
            break
        if mode == "async":
            asyncio.run(awaited(graph))
        elif mode == "stream":
            list(graph.stream(given(state), CONFIG))
        else:
            graph.invoke(given(state), CONFIG)
    end = graph.get_state(CONFIG)
    assert is_over(end), end
    Path("result").write_text("\n".join(str(message.content) for message in end.values["messages"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
