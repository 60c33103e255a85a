"""The OpenAI Agents SDK: one ``Runner.run`` for each part.

Its own persistence is ``SQLiteSession``, which "stores conversation history"; the SDK adds to it after every turn. A part that was cut
off goes on from the items in the session (with no new input), which loses less than asking it again.
"""

import asyncio
import os
import sys
from typing import Any

from agents import (
    Agent,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from bench.recovery.task import PARTS, part_of, prompt_of
from bench.recovery.tools import SYSTEM, TOOLS


def make_agent(tools: Any) -> Agent[Any]:
    client = AsyncOpenAI(base_url=os.environ["RECOVERY_PROVIDER"], max_retries=0)
    model = OpenAIResponsesModel(model="scripted", openai_client=client)
    return Agent(
        name="writer", instructions=SYSTEM, model=model, tools=[function_tool(tool) for tool in tools]
    )


async def own() -> None:
    agent, session = make_agent(TOOLS), SQLiteSession("report", "session.db")
    items: list[Any] = list(await session.get_items())
    begun = [place for place, item in enumerate(items) if item.get("role") == "user"]
    if begun and not any(item.get("role") == "assistant" for item in items[begun[-1] :]):
        await Runner.run(agent, [], session=session)
    first = (part_of(str(items[begun[-1]]["content"])) or 0) + 1 if begun else 0
    for part in range(first, len(PARTS)):
        await Runner.run(agent, prompt_of(part), session=session)


async def held() -> None:
    from bench.recovery import held_tools
    from holdfast.adapters.openai_agents import HoldfastSession, durable

    agent = make_agent(held_tools.TOOLS)
    async with durable(held_tools.RUN, store=held_tools.STORE):
        for part in range(len(PARTS)):
            await Runner.run(agent, prompt_of(part), session=HoldfastSession("report"))


if __name__ == "__main__":
    set_tracing_disabled(True)
    asyncio.run(own() if sys.argv[1] == "own" else held())
