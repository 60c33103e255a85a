"""The agent that is killed: ``agent.py BASE_URL``. It writes about things, and lets the model choose a tool after each text.

The tools come through JSON-schema output: a small model does not call them by itself, and llama.cpp enforces the schema.
The world is files in the working directory: ``acks`` (answers that reached the program whole), ``ledger`` (effects).
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import openai

import holdfast

RUN = "letters"
MODEL = "smollm2"
THINGS = ["the sea", "a lighthouse", "kelp", "an old ship", "the tide", "a storm", "gulls", "a harbour"]
SCHEMA = {
    "type": "object",
    "properties": {
        "tool": {"type": "string", "enum": ["look_up", "file_note", "send_letter"]},
        "argument": {"type": "string", "maxLength": 40},
    },
    "required": ["tool", "argument"],
    "additionalProperties": False,
}


def write(file: str, **line: Any) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, json.dumps({**line, "pid": os.getpid(), "at": time.time()}).encode() + b"\n")
    os.close(fd)


def in_ledger(*, idempotency_key: str) -> holdfast.Done | holdfast.NotDone | holdfast.Unknown:
    for line in Path("ledger").read_text().splitlines() if Path("ledger").exists() else ():
        if json.loads(line)["key"] == idempotency_key:
            return holdfast.Done("done")
    return holdfast.NotDone("it is not in the ledger")


@holdfast.tool(effect="read")
def look_up(turn: int, argument: str) -> str:
    return f"{argument}: nothing is known"


@holdfast.tool(effect="once", verify=in_ledger, settle_s=0)
def file_note(turn: int, argument: str, *, idempotency_key: str = holdfast.KEY) -> str:
    write("ledger", key=idempotency_key, turn=turn, what="note", argument=argument)
    return "done"


@holdfast.tool(effect="once", verify=in_ledger, settle_s=0)
def send_letter(turn: int, argument: str, *, idempotency_key: str = holdfast.KEY) -> str:
    write("ledger", key=idempotency_key, turn=turn, what="letter", argument=argument)
    return "done"


TOOLS: dict[str, Any] = {"look_up": look_up, "file_note": file_note, "send_letter": send_letter}


def ask(client: openai.OpenAI, name: str, messages: list[Any], **options: Any) -> str:
    """A streamed answer, whole."""
    text = ""
    finish = None
    for chunk in client.chat.completions.create(
        model=MODEL, messages=messages, stream=True, temperature=0, **options
    ):
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
            finish = chunk.choices[0].finish_reason or finish
    assert finish is not None, "a stream without an end was handed to the program as a whole one"
    write("acks", name=name, text=text)
    return text


def work(client: openai.OpenAI) -> list[str]:
    """A text and a tool for each thing."""
    chosen = []
    wanted = {"type": "json_schema", "json_schema": {"name": "action", "strict": True, "schema": SCHEMA}}
    for turn, thing in enumerate(THINGS):
        messages: list[Any] = [{"role": "user", "content": f"Write a few sentences about {thing}."}]
        text = ask(client, f"text {turn}", messages, max_tokens=90)
        messages += [
            {"role": "assistant", "content": text},
            {
                "role": "user",
                "content": "Choose a tool: look_up, file_note or send_letter, and its argument, as JSON.",
            },
        ]
        action = json.loads(ask(client, f"tool {turn}", messages, max_tokens=90, response_format=wanted))
        TOOLS[action["tool"]](turn, action["argument"])
        # Whatever the model chose, something must happen once in every turn.
        send_letter(turn, f"about {thing}")
        chosen.append(action["tool"])
    return chosen


if __name__ == "__main__":
    plain = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=60)
    patience = holdfast.Patience(first_s=0.2, longest_s=1.0)
    with holdfast.run(RUN, store="sqlite:///e2e.db") as run:
        run.finish(work(holdfast.wrap(plain, patience=patience)))
