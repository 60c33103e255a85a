"""An agent to be killed: ``program.py KIND WAY``."""

import asyncio
import os
import sys
from typing import Any

from tests.adapters.agent_framework.scripted import EFFECTS, make_agent, make_team

import holdfast
from holdfast.adapters.agent_framework import durable


async def worked(kind: str, *, is_streamed: bool) -> Any:
    if kind == "team":
        events = await durable(make_team(os.environ["PROVIDER"]), effects=EFFECTS).run("go")
        return [output.text for output in events.get_outputs()]
    agent = durable(make_agent(kind, os.environ["PROVIDER"]), effects=EFFECTS)
    session = agent.create_session()
    if is_streamed:
        stream = agent.run("go", session=session, stream=True)
        _ = [update async for update in stream]
        result = await stream.get_final_response()
    else:
        result = await agent.run("go", session=session)
    said = [[message.role, [part.type for part in message.contents]] for message in result.messages]
    used = sorted(result.usage_details.items())  # the framework has them in the order of a set
    return [result.text, said, session.state["seen"], used]


async def main(kind: str, way: str) -> None:
    async with holdfast.run("agent") as run:
        await run.finish(await worked(kind, is_streamed=way == "streamed"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
