"""A loop over an OpenAI client, with nothing kept (started again, it begins at the top), and in a run of Holdfast."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import openai

from bench.recovery.task import PARTS, prompt_of
from bench.recovery.tools import SYSTEM, TOOLS

SCHEMAS: Any = [
    {
        "type": "function",
        "function": {
            "name": tool.__name__,
            "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}},
        },
    }
    for tool in TOOLS
]


def asking(client: openai.OpenAI) -> Callable[[list[Any]], dict[str, Any]]:
    """One model call: messages in, the model's message out."""

    def ask(messages: list[Any]) -> dict[str, Any]:
        answer = client.chat.completions.create(model="scripted", messages=messages, tools=SCHEMAS)
        return answer.choices[0].message.model_dump(exclude_none=True)

    return ask


def work(ask: Callable[[list[Any]], dict[str, Any]], tools: Sequence[Callable[..., Any]]) -> str:
    """The whole task; the last answer."""
    acts = {tool.__name__: tool for tool in tools}
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    for part in range(len(PARTS)):
        messages.append({"role": "user", "content": prompt_of(part)})
        while True:
            said = ask(messages)
            messages.append(said)
            for call in said.get("tool_calls", ()):
                result = acts[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            if "tool_calls" not in said:
                break
    return str(messages[-1]["content"])


def main(way: str) -> None:
    client = openai.OpenAI(base_url=os.environ["RECOVERY_PROVIDER"], max_retries=0)
    if way == "none":
        work(asking(client), TOOLS)
        return
    import holdfast
    from bench.recovery import held_tools

    tools = held_tools.TOOLS if way == "holdfast" else held_tools.UNVERIFIED
    with holdfast.run(held_tools.RUN, store=held_tools.STORE) as run:
        run.finish(work(asking(holdfast.wrap(client)), tools))


if __name__ == "__main__":
    main(sys.argv[1])
