"""The research agent on Microsoft Agent Framework: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[agent-framework]' agent-framework-openai
    python examples/frameworks/agent_framework_agent.py    # kill it with -9 while it reads
    python examples/frameworks/agent_framework_agent.py    # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. Two lines are for Holdfast: the run, and ``durable``.
"""

import asyncio

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient
from desk import PROMPT, model, publish, read_page

import holdfast
from holdfast.adapters.agent_framework import durable


async def main(url: str) -> None:
    client = OpenAIChatCompletionClient(model="scripted", base_url=url, api_key="none")
    agent = Agent(client, tools=[read_page, publish])
    async with holdfast.run("research") as run:
        result = await durable(agent, effects={"read_page": "read"}).run(PROMPT)
        await run.finish(result.text)
    print(f"{run.result} {run.attempt} attempt(s)")


with model() as server:
    asyncio.run(main(server.base_url))
