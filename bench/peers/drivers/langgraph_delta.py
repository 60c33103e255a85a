"""The same graph, its messages in a ``DeltaChannel``, which LangGraph has in beta for histories that grow."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from langgraph.channels.delta import DeltaChannel

from bench.peers.drivers import langgraph_graph

Messages = list[dict[str, str]]


def _added(messages: Messages, writes: Sequence[Messages]) -> Messages:
    return [*messages, *(message for write in writes for message in write)]


class State(TypedDict):
    messages: Annotated[Messages, DeltaChannel(_added)]


langgraph_graph.STATE = State
agent, fork, crowd, prune = (
    langgraph_graph.agent,
    langgraph_graph.fork,
    langgraph_graph.crowd,
    langgraph_graph.prune,
)
