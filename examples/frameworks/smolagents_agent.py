"""The research agent on smolagents: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[smolagents]' openai
    python examples/frameworks/smolagents_agent.py         # kill it with -9 while it reads
    python examples/frameworks/smolagents_agent.py         # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. Two lines are for Holdfast: the run, and ``durable``.
"""

from desk import PROMPT, model, publish, read_page
from smolagents import OpenAIModel, ToolCallingAgent, tool

import holdfast
from holdfast.adapters.smolagents import durable

with model() as server:
    scripted = OpenAIModel("scripted", api_base=server.base_url, api_key="none")
    tools = [tool(read_page), tool(publish)]
    agent = ToolCallingAgent(tools=tools, model=scripted, verbosity_level=0)
    with holdfast.run("research") as run:
        run.finish(durable(agent, effects={"read_page": "read"}).run(PROMPT))

print(f"{run.result} {run.attempt} attempt(s)")
