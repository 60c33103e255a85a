"""The research agent on LangGraph: kill it anywhere, and no finished tool runs twice.

    pip install 'holdfast[langgraph]'
    python examples/frameworks/langgraph_agent.py          # kill it with -9 while it reads
    python examples/frameworks/langgraph_agent.py          # the same line goes on

What to see: the thread goes on where it was, and published.txt has one line. Three lines are for Holdfast: the
tools, the checkpointer, and the question whether the thread was begun. The model is a function, in place of a
chat model.
"""

from desk import PROMPT, next_call, publish, read_page
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from holdfast.adapters.langgraph import HoldfastSaver, durable_tools


def scripted(state: MessagesState) -> dict[str, list[AIMessage]]:
    turn = sum(isinstance(message, AIMessage) for message in state["messages"])
    call = next_call(turn)
    if call is None:
        return {"messages": [AIMessage("The report is out.")]}
    wanted = {"name": call[0], "args": call[1], "id": f"call-{turn}"}
    return {"messages": [AIMessage("", tool_calls=[wanted])]}


tools = durable_tools([tool(read_page), tool(publish)], effects={"read_page": "read"})
builder = StateGraph(MessagesState)
builder.add_node("model", scripted)
builder.add_node("tools", ToolNode(tools))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")

saver = HoldfastSaver()  # the store that holdfast.run(…) would use
graph = builder.compile(checkpointer=saver)
config: RunnableConfig = {"configurable": {"thread_id": "research"}}
begun = saver.get_tuple(config) is not None
asked: MessagesState | None = None if begun else {"messages": [HumanMessage(PROMPT)]}
end = graph.invoke(asked, config)
print(end["messages"][-1].content)
