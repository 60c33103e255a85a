"""The research agent on CrewAI: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[crewai]'
    python examples/frameworks/crewai_agent.py             # kill it with -9 while it reads
    python examples/frameworks/crewai_agent.py             # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. One line is for Holdfast: ``durable``, around the crew.
"""

import logging

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from desk import PROMPT, model, publish, read_page

from holdfast.adapters.crewai import durable

logging.getLogger("crewai.llms").setLevel(logging.ERROR)  # it says at each call how it counts tokens
with model() as server:
    llm = LLM(model="openai/scripted", base_url=server.base_url, api_key="none")
    researcher = Agent(
        role="Researcher",
        goal="to explain debt cycles",
        backstory="You read before you write.",
        llm=llm,
        tools=[tool("read_page")(read_page), tool("publish")(publish)],
    )
    task = Task(description=PROMPT, expected_output="a published report", agent=researcher)
    crew = Crew(agents=[researcher], tasks=[task])
    output = durable(crew, run="research", effects={"read_page": "read"}).kickoff()

print(output.raw)
