"""What changes a request on its way to the model, and tools of other processes: compaction, providers, MCP."""

import sys
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    ContextProvider,
    MCPStdioTool,
    SlidingWindowStrategy,
    SummarizationStrategy,
)
from tests.adapters.agent_framework.runs import ledger, twice
from tests.adapters.agent_framework.scripted import EFFECTS, answer_calls, client_at, make_agent
from tests.support.model_server import Asked, Provider, Reply, ToolCall

from holdfast.adapters.agent_framework import durable


def count_of(asked: Asked) -> Reply:
    """Calls until there were three results, by the number in the last of them."""
    if any("summar" in said.lower() for role, said in asked.messages if role == "system"):
        return Reply(text="in short: it went well")
    results = [said for role, said in asked.messages if role == "tool"]
    seen = int(results[-1].rpartition(" ")[2]) if results else 0
    if seen == 4:
        return Reply(text=f"done with {len(asked.messages)} messages")
    return Reply(text="", calls=(ToolCall("count", f'{{"n": {seen + 1}}}', f"c{seen}"),))


def count(n: int) -> str:
    """Counts."""
    with Path("ledger").open("a") as lines:
        lines.write(f"count {n}\n")
    return f"counted {n}"


@pytest.mark.parametrize("strategy", ["window", "summary"])
def test_compaction(provider: Provider, url: str, strategy: str) -> None:
    """It happens again in a replay, and makes the same requests; the summary itself is a model call.

    Planted: with model calls taken by chat middleware, which lies before compaction, the run stops with ``Diverged``.
    """
    provider.script.answering = count_of

    async def work() -> Any:
        short: Any = SlidingWindowStrategy(keep_last_groups=2)
        if strategy == "summary":
            client = durable(client_at(provider.base_url))
            short = SummarizationStrategy(client=client, target_count=2, threshold=1)
        agent = make_agent("chat", provider.base_url, [count], compaction_strategy=short)
        return (await durable(agent).run("go")).text

    said = twice(url, work)
    assert said.startswith("done with ")
    assert int(said.split()[2]) < 9
    assert ledger() == [f"count {n}" for n in range(1, 5)]
    bodies = [str(call.body) for call in provider.calls]
    assert len(bodies) == len(set(bodies))
    assert any("in short" in body for body in bodies) is (strategy == "summary")


class Memory(ContextProvider):
    """Tells the model what a tool left in the session."""

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: dict[str, Any]) -> None:
        context.extend_instructions(self.source_id, f"You saw: {session.state.get('seen')}")


def test_a_context_provider_sees_what_a_tool_left(provider: Provider, url: str) -> None:
    """The state that a tool left comes back with its result, so that the next request is the same."""
    provider.script.answering = answer_calls

    async def work() -> Any:
        agent = make_agent("chat", provider.base_url, context_providers=[Memory("memory")])
        session = durable(agent, effects=EFFECTS).create_session()
        await agent.run("go", session=session)
        return (await agent.run("again", session=session)).text

    twice(url, work)
    instructions = [str(call.body["messages"][0]) for call in provider.calls]
    assert "You saw: None" in instructions[0]
    assert "You saw: sea" in instructions[-1]
    assert len(provider.calls) == len({str(call.body) for call in provider.calls})


SERVER = """
from mcp.server import MCPServer

server = MCPServer("shop")


@server.tool()
def order(item: str) -> str:
    with open("ledger", "a") as lines:
        lines.write(f"order {item}\\n")
    return f"ordered {item}"


server.run()
"""


def test_a_tool_of_an_mcp_server(provider: Provider, url: str, tmp_path: Path) -> None:
    """It is a step like any other; in a replay the server is started, and not called."""
    (tmp_path / "server.py").write_text(SERVER)

    def answer(asked: Asked) -> Reply:
        is_over = any(role == "tool" for role, _ in asked.messages)
        called = ToolCall("order", '{"item": "tea"}', "c")
        return Reply(text="ok") if is_over else Reply(text="", calls=(called,))

    provider.script.answering = answer

    async def work() -> Any:
        async with MCPStdioTool("shop", sys.executable, args=["server.py"], load_prompts=False) as shop:
            agent = durable(make_agent("chat", provider.base_url, [shop]))
            async with agent:
                return (await agent.run("go")).text

    assert twice(url, work) == "ok"
    assert ledger() == ["order tea"]
    assert len(provider.calls) == 2
    assert "ordered tea" in str(provider.calls[1].body)
