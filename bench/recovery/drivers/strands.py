"""Strands Agents: an agent with its default provider (Bedrock), called once for each part.

Its own persistence is ``FileSessionManager``, which stores each message when it is added; an agent with the same session has them
again. A part that was cut off is gone on with by calling the agent without a prompt.
"""

import os
import sys
from typing import Any

import boto3
from strands import Agent, tool
from strands.models import BedrockModel

from bench.recovery.task import PARTS, part_of, prompt_of
from bench.recovery.tools import SYSTEM, TOOLS


def make_agent(tools: Any, **options: Any) -> Agent:
    session = boto3.Session("none", "none", region_name="us-east-1")
    model = BedrockModel(
        boto_session=session,
        endpoint_url=os.environ["RECOVERY_PROVIDER"].removesuffix("/v1"),
        model_id="scripted",
        streaming=False,
    )
    given = [tool(function) for function in tools]
    return Agent(
        model=model, tools=given, system_prompt=SYSTEM, agent_id="writer", callback_handler=None, **options
    )


def own() -> None:
    from strands.session.file_session_manager import FileSessionManager

    manager = FileSessionManager(session_id="report", storage_dir="sessions")
    agent = make_agent(TOOLS, session_manager=manager)
    parts = [part for message in agent.messages if (part := part_of(str(message))) is not None]
    last: Any = agent.messages[-1] if agent.messages else {"role": "assistant", "content": []}
    if last["role"] != "assistant" or any("toolUse" in block for block in last["content"]):
        agent()
    for part in range(parts[-1] + 1 if parts else 0, len(PARTS)):
        agent(prompt_of(part))


def held() -> None:
    import holdfast
    from bench.recovery import held_tools
    from holdfast.adapters.strands import durable

    with holdfast.run(held_tools.RUN, store=held_tools.STORE) as run:
        agent = durable(make_agent(held_tools.TOOLS))
        for part in range(len(PARTS)):
            answer = agent(prompt_of(part))
        run.finish(str(answer))


if __name__ == "__main__":
    own() if sys.argv[1] == "own" else held()
