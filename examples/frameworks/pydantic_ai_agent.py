"""The research agent on Pydantic AI: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[pydantic-ai]' openai
    python examples/frameworks/pydantic_ai_agent.py        # kill it with -9 while it reads
    python examples/frameworks/pydantic_ai_agent.py        # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. Two lines are for Holdfast: the run, and ``durable``.
"""

from desk import PROMPT, model, publish, read_page
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import holdfast
from holdfast.adapters.pydantic_ai import durable

with model() as server:
    provider = OpenAIProvider(base_url=server.base_url, api_key="none")
    agent = Agent(OpenAIChatModel("scripted", provider=provider), tools=[read_page, publish])
    with holdfast.run("research") as run:
        result = durable(agent, effects={"read_page": "read"}).run_sync(PROMPT)
        run.finish(result.output)

print(f"{run.result} {run.attempt} attempt(s)")
