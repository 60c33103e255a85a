"""Pydantic AI: one run of the agent for each part, with the messages of those before it.

Its own ways: the messages of each run stored as JSON when it is over, as its documentation of message histories does; and the
capability ``DBOSDurability`` inside a ``@DBOS.workflow``, with tools that are ``@DBOS.step``s, as its documentation of durable
execution says.
"""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Sequence
from typing import Any

from pydantic_ai import Agent, ModelMessagesTypeAdapter
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from bench.recovery.task import PARTS, prompt_of
from bench.recovery.tools import SYSTEM, TOOLS


def make_agent(tools: Sequence[Any], **options: Any) -> Any:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=os.environ["RECOVERY_PROVIDER"], max_retries=0)
    model = OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))
    return Agent(model, name="writer", instructions=SYSTEM, tools=tools, **options)


async def work(agent: Any) -> str:
    history: list[Any] = []
    for part in range(len(PARTS)):
        result = await agent.run(prompt_of(part), message_history=history)
        history = result.all_messages()
    return str(result.output)


async def messages() -> None:
    database = sqlite3.connect("messages.db")
    database.execute("CREATE TABLE IF NOT EXISTS messages (part INTEGER PRIMARY KEY, message_list TEXT)")
    rows = database.execute("SELECT message_list FROM messages ORDER BY part").fetchall()
    history = [message for (row,) in rows for message in ModelMessagesTypeAdapter.validate_json(row)]
    agent = make_agent(TOOLS)
    for part in range(len(rows), len(PARTS)):
        result = await agent.run(prompt_of(part), message_history=history)
        with database:
            database.execute(
                "INSERT INTO messages VALUES (?, ?)", (part, result.new_messages_json().decode())
            )
        history = result.all_messages()


def dbos() -> None:
    from dbos import DBOS, SetWorkflowID
    from pydantic_ai.durable_exec.dbos import DBOSDurability

    DBOS(config={"name": "report", "system_database_url": "sqlite:///dbos.sqlite", "log_level": "ERROR"})
    # Plain functions run in threads: with its default mode, two tools of one answer are steps in either order, and a
    # recovered workflow stops for good with DBOSUnexpectedStepError if it is the other one.
    durability: Any = DBOSDurability(parallel_execution_mode="sequential")
    agent = make_agent([DBOS.step()(tool) for tool in TOOLS], capabilities=[durability])

    @DBOS.workflow()
    async def report() -> str:
        return await work(agent)

    DBOS.launch()
    with SetWorkflowID("report"):  # started again, the same id is the same workflow
        asyncio.run(_result(DBOS.start_workflow_async(report)))
    DBOS.destroy()


async def _result(starting: Any) -> None:
    await (await starting).get_result()


async def held() -> None:
    import holdfast
    from bench.recovery import held_tools
    from holdfast.adapters.pydantic_ai import durable

    async with holdfast.run(held_tools.RUN, store=held_tools.STORE) as run:
        await run.finish(await work(durable(make_agent(held_tools.TOOLS))))


if __name__ == "__main__":
    if sys.argv[1] == "dbos":
        dbos()
    else:
        asyncio.run(messages() if sys.argv[1] == "own" else held())
