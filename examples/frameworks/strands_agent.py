"""The research agent on Strands Agents: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[strands]'
    python examples/frameworks/strands_agent.py            # kill it with -9 while it reads
    python examples/frameworks/strands_agent.py            # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. One line is for Holdfast: ``durable``, around the agent.
"""

from desk import PROMPT, model, publish, read_page
from strands import Agent, tool
from strands.models.llamacpp import LlamaCppModel

from holdfast.adapters.strands import durable

with model() as server:
    scripted = LlamaCppModel(server.base_url.removesuffix("/v1"), model_id="scripted")
    agent = Agent(model=scripted, tools=[tool(read_page), tool(publish)], callback_handler=None)
    result = durable(agent, run="research", effects={"read_page": "read"})(PROMPT)

print(str(result).strip())
