"""The research agent on the Claude Agent SDK: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[claude-agent-sdk]'
    python examples/frameworks/claude_agent.py             # kill it with -9 while it reads
    python examples/frameworks/claude_agent.py             # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. One line is for Holdfast: the block around the options. The SDK's own CLI works here as it always
does; only its model is a server in this process, at ANTHROPIC_BASE_URL.
"""

import asyncio
import os
from typing import Any

from anthropic_desk import anthropic_model
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query, tool
from desk import PROMPT, publish, read_page

from holdfast.adapters.claude_agent_sdk import durable


@tool("read_page", "Read a page of the library", {"page": str})
async def read_page_tool(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": read_page(given["page"])}]}


@tool("publish", "Publish the report", {"report": str})
async def publish_tool(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": publish(given["report"])}]}


async def main() -> None:
    options = ClaudeAgentOptions(
        mcp_servers={"desk": create_sdk_mcp_server("desk", tools=[read_page_tool, publish_tool])},
        allowed_tools=["mcp__desk__read_page", "mcp__desk__publish"],
    )
    block = durable(
        options,
        run="research",
        effects={"read_page": "read"},
        premises={"model": "ignore"},  # this model's server has another port in each attempt
    )
    async with block as held:
        async for message in query(prompt=PROMPT, options=held):
            if isinstance(message, ResultMessage):
                print(message.result)


with anthropic_model() as address:
    os.environ.update(ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY="none")
    os.environ.setdefault("CLAUDE_CONFIG_DIR", ".claude-config")  # the CLI's own files stay here
    asyncio.run(main())
