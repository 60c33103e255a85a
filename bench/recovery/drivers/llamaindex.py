"""LlamaIndex: a ``FunctionAgent``, one run for each part, with one ``Context`` for all of them.

Its own persistence is the context, serialised when a run is over (``ctx.to_dict``) and brought back by ``Context.from_dict``, and a
``Memory`` in a database for the messages, which a serialised context leaves out: its documentation of agents that keep state, and that
of memory.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import Memory
from llama_index.core.workflow import Context, JsonSerializer
from llama_index.llms.openai import OpenAI

from bench.recovery.task import PARTS, prompt_of
from bench.recovery.tools import SYSTEM, TOOLS

SAVED = Path("context.json")


def make_agent(tools: Any) -> Any:
    llm = OpenAI(model="gpt-4o", api_base=os.environ["RECOVERY_PROVIDER"], api_key="none", max_retries=0)
    return FunctionAgent(tools=list(tools), llm=llm, system_prompt=SYSTEM, streaming=False)


def load() -> Any:
    return json.loads(SAVED.read_text()) if SAVED.exists() else {"part": 0}


def save(saved: Any) -> None:
    written = SAVED.with_suffix(".new")
    written.write_text(json.dumps(saved))
    written.replace(SAVED)


async def own() -> None:
    agent, saved = make_agent(TOOLS), load()
    kept = saved.get("context")
    context = Context.from_dict(agent, kept, serializer=JsonSerializer()) if kept else Context(agent)
    memory = Memory.from_defaults(session_id="report", async_database_uri="sqlite+aiosqlite:///memory.db")
    for part in range(saved["part"], len(PARTS)):
        await agent.run(user_msg=prompt_of(part), ctx=context, memory=memory)
        save({"part": part + 1, "context": context.to_dict(serializer=JsonSerializer())})


async def held() -> None:
    import holdfast
    from bench.recovery import held_tools
    from holdfast.adapters.llama_index import durable

    async with holdfast.run(held_tools.RUN, store=held_tools.STORE) as run:
        agent = durable(make_agent(held_tools.TOOLS))
        context = Context(agent)
        for part in range(len(PARTS)):
            answer = await agent.run(user_msg=prompt_of(part), ctx=context)
        await run.finish(str(answer))


if __name__ == "__main__":
    asyncio.run(own() if sys.argv[1] == "own" else held())
