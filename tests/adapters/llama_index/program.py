"""An agent to be killed: ``program.py KIND WAY``."""

import asyncio
import os
import sys

from tests.adapters.llama_index.scripted import EFFECTS, make_agent

import holdfast
from holdfast.adapters.llama_index import durable


async def main(kind: str, way: str) -> None:
    async with holdfast.run("agent") as run:
        agent = make_agent(kind, os.environ["PROVIDER"], streaming=way == "streamed")
        result = await durable(agent, effects=EFFECTS).run(user_msg="go")
        await run.finish([str(result), [call.tool_name for call in result.tool_calls]])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
