"""An agent to be killed, with its CLI: both are of one process group."""

import asyncio
import os

from tests.adapters.claude_agent_sdk.scripted import EFFECTS, agent_options, result_of

import holdfast
from holdfast.adapters.claude_agent_sdk import durable


async def main() -> None:
    async with (
        holdfast.run("agent") as run,
        durable(agent_options(cwd=os.getcwd()), effects=EFFECTS) as options,
    ):
        await run.finish(await result_of(options))


if __name__ == "__main__":
    os.setsid()
    os.environ.update(AGENT=str(os.getpid()), CLAUDE_CONFIG_DIR=os.path.join(os.getcwd(), "config"))
    asyncio.run(main())
