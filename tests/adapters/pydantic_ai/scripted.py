"""An agent with a scripted model: a batch of three tools, then one, then a text. What was really called is listed."""

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

Turn = str | list[tuple[str, dict[str, Any]]]
"""What the model answers: a text, or calls of tools with their arguments."""
SCRIPT: list[Turn] = [[("pay", {"n": n}) for n in range(3)], [("look", {"q": "x"})], "all is done"]


def scripted(turns: list[Turn], heard: list[str]) -> FunctionModel:
    """A model that gives these turns, one for each response that the conversation has; ``heard`` lists its requests."""

    def turn_of(messages: list[ModelMessage]) -> Turn:
        number = sum(isinstance(message, ModelResponse) for message in messages)
        heard.append(f"model {number}")
        return turns[number]

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        turn = turn_of(messages)
        if isinstance(turn, str):
            return ModelResponse(parts=[TextPart(turn)])
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in turn])

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
        import json

        turn = turn_of(messages)
        if isinstance(turn, str):
            for word in turn.split():
                yield word + " "
            return
        for place, (name, arguments) in enumerate(turn):
            text = json.dumps(arguments)
            yield {place: DeltaToolCall(name, text[:3])}
            yield {place: DeltaToolCall(None, text[3:])}

    return FunctionModel(answer, stream_function=stream, model_name="scripted")


def make_agent(heard: list[str], turns: list[Turn] | None = None, **options: Any) -> Agent[Any, Any]:
    """The agent, with tools that are async, blocking, and want the context."""
    agent: Agent[Any, Any] = Agent(scripted(turns or SCRIPT, heard), **options)

    @agent.tool
    async def pay(ctx: RunContext[Any], n: int) -> str:
        heard.append(f"pay {n}")
        return f"paid {n} for {ctx.deps.name if ctx.deps else 'nobody'}"

    @agent.tool_plain
    def look(q: str) -> dict[str, str]:
        heard.append(f"look {q}")
        return {"q": q}

    return agent
