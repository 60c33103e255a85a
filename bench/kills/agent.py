"""The agent that is killed: ``python -m bench.kills.agent BASE_URL CALLS``, started again with the same line until it is done.

It works in its directory: ``acks`` gets a line for every model call that came back complete, ``ledger`` one for every
effect. A line that was written survives SIGKILL. The provider decides answers by the request, so every attempt can be
compared with a calm one.
"""

import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import openai

import holdfast

RUN = "kills"


def write(file: str, **line: Any) -> None:
    """Add a line to a file of the outside world, in one write."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, json.dumps({**line, "pid": os.getpid(), "at": time.time()}).encode() + b"\n")
    os.close(fd)


def in_ledger(number: int, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone | holdfast.Unknown:
    """Whether the note was made: what the outside world says."""
    for line in Path("ledger").read_text().splitlines() if Path("ledger").exists() else ():
        if json.loads(line)["key"] == idempotency_key:
            return holdfast.Done(number)
    return holdfast.NotDone("it is not in the ledger")


@holdfast.tool(effect="once", verify=in_ledger, settle_s=0)
def note(text: str, number: int, *, idempotency_key: str = holdfast.KEY) -> int:
    """Write a note that must not be written twice."""
    write("ledger", key=idempotency_key, number=number, text=text)
    return number


def prompt_of(index: int) -> str:
    """What the agent asks: mostly for a text of 60 to 200 tokens, every fifth time for a call of a tool."""
    if index % 5 == 4:
        return f"Part {index}: note it. #call=note"
    return f"Part {index}: write. #tokens={random.Random(index).randint(60, 200)}"


def ask(client: openai.OpenAI, messages: list[Any]) -> dict[str, Any]:
    """One streamed answer as the message that it is."""
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    finish = None
    for chunk in client.chat.completions.create(model="scripted", messages=messages, stream=True):
        if not chunk.choices:
            continue
        choice = chunk.choices[0]
        finish = choice.finish_reason or finish
        text += choice.delta.content or ""
        for call in choice.delta.tool_calls or []:
            known = calls.setdefault(call.index, {"id": call.id, "name": "", "arguments": ""})
            if call.function is not None:
                known["name"] += call.function.name or ""
                known["arguments"] += call.function.arguments or ""
    assert finish is not None, "a stream that ended without an end was handed to the program as a whole one"
    if not calls:
        return {"role": "assistant", "content": text}
    wanted = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": call["arguments"]},
        }
        for call in calls.values()
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": wanted}


def work(base_url: str, calls: int) -> str:
    """The whole task. Its result is a digest of all that the model said."""
    client = holdfast.wrap(openai.OpenAI(base_url=base_url, api_key="none", max_retries=0))
    digest = hashlib.sha256()
    messages: list[Any] = [{"role": "system", "content": "You write a long report in parts."}]
    for index in range(calls):
        messages.append({"role": "user", "content": prompt_of(index)})
        said = ask(client, messages)
        told = hashlib.sha256(
            json.dumps([said["content"], *_arguments(said)], sort_keys=True).encode()
        ).hexdigest()
        write("acks", index=index, digest=told)
        digest.update(told.encode())
        messages.append(said)
        for call in said.get("tool_calls", []):
            result = note(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
    return digest.hexdigest()


def _arguments(said: dict[str, Any]) -> list[str]:
    return [call["function"]["arguments"] for call in said.get("tool_calls", [])]


if __name__ == "__main__":
    with holdfast.run(RUN, store="sqlite:///kills.db") as run:
        run.finish(work(sys.argv[1], int(sys.argv[2])))
