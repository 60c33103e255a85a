"""LangGraph: a graph of a chat model and a ToolNode, one turn of the thread for each part.

Its own persistence is ``SqliteSaver`` with ``durability="sync"``, the strictest mode ("persists changes synchronously before the next
step starts"), and ``graph.invoke(None, config)`` after a kill, which its documentation gives for resuming after a failure.
"""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from bench.recovery.task import PARTS, prompt_of
from bench.recovery.tools import SYSTEM, TOOLS


def work(saver: Any, tools: Sequence[Any], node: Callable[[Any], Any], **client: Any) -> None:
    """All parts that the thread does not have."""
    llm = ChatOpenAI(
        model="scripted", base_url=os.environ["RECOVERY_PROVIDER"], max_retries=0, **client
    ).bind_tools(tools)

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [llm.invoke([("system", SYSTEM), *state["messages"]])]}

    builder: Any = StateGraph(MessagesState)
    builder.add_node("model", node(model))
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else "__end__")
    builder.add_edge("tools", "model")
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "report"}}
    begun = 0
    if saver.get_tuple(config) is not None:
        state = graph.invoke(None, config, durability="sync")
        begun = sum(isinstance(message, HumanMessage) for message in state["messages"])
    for part in range(begun, len(PARTS)):
        graph.invoke({"messages": [HumanMessage(prompt_of(part))]}, config, durability="sync")


def main(way: str) -> None:
    if way == "own":
        from langgraph.checkpoint.sqlite import SqliteSaver

        with SqliteSaver.from_conn_string("langgraph.db") as saver:
            work(saver, [tool(function) for function in TOOLS], lambda node: node)
        return
    import httpx

    import holdfast
    from bench.recovery import held_tools
    from holdfast.adapters.langgraph import HoldfastSaver, durable_node, durable_tools

    tools = durable_tools([tool(function) for function in held_tools.TOOLS])
    client = holdfast.wrap(httpx.Client())
    work(HoldfastSaver(held_tools.STORE), tools, durable_node, http_client=client)


if __name__ == "__main__":
    main(sys.argv[1])
