"""The research agent on the OpenAI Agents SDK: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[openai-agents]'
    python examples/frameworks/openai_agents_agent.py      # kill it with -9 while it reads
    python examples/frameworks/openai_agents_agent.py      # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. One line is for Holdfast: the block around the agent.
"""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from desk import PROMPT, model, publish, read_page
from openai import AsyncOpenAI

from holdfast.adapters.openai_agents import durable

set_tracing_disabled(True)
with model() as server:
    client = AsyncOpenAI(base_url=server.base_url, api_key="none")
    scripted = OpenAIChatCompletionsModel("scripted", openai_client=client)
    agent = Agent("Researcher", tools=[function_tool(read_page), function_tool(publish)], model=scripted)
    with durable("research", effects={"read_page": "read"}) as run:
        result = Runner.run_sync(agent, PROMPT)
        run.finish(result.final_output)

print(f"{run.result} {run.attempt} attempt(s)")
