"""The research agent on LlamaIndex: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[llama-index]' llama-index-llms-openai
    python examples/frameworks/llama_index_agent.py        # kill it with -9 while it reads
    python examples/frameworks/llama_index_agent.py        # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. Two lines are for Holdfast: the run, and ``durable``.
"""

import asyncio

from desk import PROMPT, model, publish, read_page
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

import holdfast
from holdfast.adapters.llama_index import durable


async def main(url: str) -> None:
    llm = OpenAI(model="gpt-4o", api_base=url, api_key="none")  # the name says that it can call tools
    agent = FunctionAgent(tools=[read_page, publish], llm=llm)
    # premises=: this model's server has another port in each attempt, which is no news
    async with holdfast.run("research", premises={"model": "ignore"}) as run:
        result = await durable(agent, effects={"read_page": "read"}).run(user_msg=PROMPT)
        await run.finish(str(result))
    print(f"{run.result} {run.attempt} attempt(s)")


with model() as server:
    asyncio.run(main(server.base_url))
