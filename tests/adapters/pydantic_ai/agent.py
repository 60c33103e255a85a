"""A Pydantic AI agent to be killed: ``agent.py WAY``. What its tools do are lines in ``ledger``, what it asks in ``asked``.

``KILL=pay.1`` has the process killed inside that tool, after its effect and before anybody knows of it; ``KILL=stream`` in
the middle of the last answer. Once: whoever starts it again finds the file ``killed``.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

import holdfast
from holdfast.adapters.pydantic_ai import durable

Tools = list[tuple[str, dict[str, Any]]]
TURNS: list[Tools | str] = [
    [("pay", {"n": 1}), ("note", {"text": "two"}), ("look", {"place": 3})],
    "paid and noted it",
]


def write(file: str, line: str) -> None:
    with Path(file).open("a") as lines:
        lines.write(line + "\n")


def ledger() -> str:
    return Path("ledger").read_text() if Path("ledger").exists() else ""


def killed_at(place: str) -> None:
    if os.environ.get("KILL") == place and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def find_payment(n: int, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    found = f"pay {n} {idempotency_key}\n" in ledger()
    return holdfast.Done(f"paid {n}") if found else holdfast.NotDone()


@holdfast.tool(effect="once", verify=find_payment, settle_s=0)
def pay(n: int, *, idempotency_key: str = holdfast.KEY) -> str:
    write("ledger", f"pay {n} {idempotency_key}")
    killed_at("pay")
    return f"paid {n}"


async def note(ctx: RunContext[str], text: str) -> str:
    if f"note {text}" not in ledger():
        write("ledger", f"note {text}")
    killed_at("note")
    return f"noted for {ctx.deps}"


def look(place: int) -> dict[str, int]:
    write("asked", f"look {place}")
    killed_at("look")
    return {"seen": place}


def turn_of(messages: list[ModelMessage]) -> Tools | str:
    number = sum(isinstance(message, ModelResponse) for message in messages)
    write("asked", f"model {number}")
    return TURNS[number]


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
            if word == "and":
                await asyncio.sleep(0.3 if os.environ.get("KILL") == "stream" else 0)
                killed_at("stream")
        return
    for place, (name, arguments) in enumerate(turn):
        yield {place: DeltaToolCall(name, json.dumps(arguments))}


agent = Agent(
    FunctionModel(answer, stream_function=stream, model_name="scripted"),
    deps_type=str,
    tools=[pay, note, look],
)
EFFECTS: Any = {"note": "idempotent", "look": "read"}


async def awaiting() -> None:
    async with holdfast.run("agent") as run:
        result = await durable(agent, effects=EFFECTS).run("go", deps=str(os.getpid()))
        await run.finish([result.output.strip(), result.usage.requests, result.usage.tool_calls])


async def streaming() -> None:
    async with holdfast.run("agent") as run:
        async with durable(agent, effects=EFFECTS).run_stream("go", deps=str(os.getpid())) as result:
            text = "".join([piece async for piece in result.stream_text(delta=True)])
        await run.finish([text.strip(), result.usage.requests, result.usage.tool_calls])


def blocking() -> None:
    with holdfast.run("agent") as run:
        result = durable(agent, effects=EFFECTS).run_sync("go", deps=str(os.getpid()))
        run.finish([result.output.strip(), result.usage.requests, result.usage.tool_calls])


if __name__ == "__main__":
    way = sys.argv[1]
    if way == "blocking":
        blocking()
    else:
        asyncio.run(awaiting() if way == "awaiting" else streaming())
