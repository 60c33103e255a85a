"""The loop of most agents: ask the model, do what it says, tell it what came of it. Kill it anywhere and run it again.

With any OpenAI-compatible server, for instance Ollama::

    OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_API_KEY=ollama MODEL=qwen3 python chat_loop.py "Pay whoever is owed."

What the model has answered is not asked for again, and nobody is paid twice.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import openai

import holdfast


@holdfast.tool(effect="read")
def look_up(name: str) -> str:
    """What somebody is owed."""
    return f"{name} is owed 5"


@holdfast.tool(effect="once")
def pay(name: str, amount: int) -> str:
    """Pay somebody."""
    with Path("ledger.txt").open("a") as ledger:
        ledger.write(f"{name} {amount}\n")
    return f"paid {amount} to {name}"


TOOLS: dict[str, Any] = {"look_up": look_up, "pay": pay}


def schema(name: str, /, **parameters: str) -> Any:
    properties = {parameter: {"type": kind} for parameter, kind in parameters.items()}
    wanted = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": wanted}}


SCHEMAS = [schema("look_up", name="string"), schema("pay", name="string", amount="integer")]


def main(task: str) -> None:
    client = holdfast.wrap(openai.OpenAI())
    with holdfast.run("chat-loop", goal=task, budget={"calls": 20}) as run:
        messages: list[Any] = [{"role": "user", "content": task}]
        while True:
            answer = client.chat.completions.create(
                model=os.environ.get("MODEL", "gpt-4o-mini"), messages=messages, tools=SCHEMAS
            )
            said = answer.choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            for call in said.tool_calls or ():
                assert call.type == "function"
                result = TOOLS[call.function.name](**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if not said.tool_calls:
                break
        run.finish(said.content)
    print(run.result)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "Pay whoever is owed.")
