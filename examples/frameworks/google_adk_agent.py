"""The research agent on Google ADK: kill it anywhere, and no answer is asked for twice.

    pip install 'holdfast[google-adk]'
    python examples/frameworks/google_adk_agent.py         # kill it with -9 while it reads
    python examples/frameworks/google_adk_agent.py         # the same line goes on

What to see: pages that were read and answers that were paid for come from the journal, and published.txt has
one line. Two lines are for Holdfast: the run, and ``durable``. The model is a class, in place of Gemini.
"""

import asyncio
from collections.abc import AsyncIterator

from desk import PROMPT, next_call, publish, read_page
from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, GenerateContentResponseUsageMetadata, Part

import holdfast
from holdfast.adapters.google_adk import durable


class Scripted(BaseLlm):
    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002 - as the base has it
    ) -> AsyncIterator[LlmResponse]:
        call = next_call(sum(content.role == "model" for content in llm_request.contents))
        said = (
            Part.from_function_call(name=call[0], args=call[1]) if call else Part(text="The report is out.")
        )
        usage = GenerateContentResponseUsageMetadata(prompt_token_count=20, candidates_token_count=5)
        yield LlmResponse(content=Content(role="model", parts=[said]), usage_metadata=usage)


async def main() -> None:
    agent = Agent(name="researcher", model=Scripted(model="scripted"), tools=[read_page, publish])
    runner = durable(InMemoryRunner(agent=agent, app_name="library"), effects={"read_page": "read"})
    async with holdfast.run("research") as run:
        await runner.session_service.create_session(app_name="library", user_id="ada", session_id="s")
        message = Content(role="user", parts=[Part(text=PROMPT)])
        async for event in runner.run_async(user_id="ada", session_id="s", new_message=message):
            if event.is_final_response():
                await run.finish(event.content.parts[0].text)
    print(f"{run.result} {run.attempt} attempt(s)")


asyncio.run(main())
