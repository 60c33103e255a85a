"""A Strands agent with a scripted model, no network, and a ledger of what was really asked and done."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from strands import Agent, tool
from strands.models.model import Model
from strands.tools.executors import SequentialToolExecutor

import holdfast
from holdfast.adapters.strands import durable

LEDGER = Path("ledger")
DIE = Path("die")


def note(line: str) -> None:
    """Write down that something really happened; die there, if it was ordered."""
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\n")
    at(f"line {len(LEDGER.read_text().splitlines())}")


def at(place: str) -> None:
    """Die here, if it was ordered."""
    if DIE.exists() and DIE.read_text() == place:
        DIE.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


Answer = str | list[tuple[str, dict[str, Any]]]


class Scripted(Model):
    """A model that answers by its script, in pieces, as a provider streams them."""

    def __init__(self, script: Callable[[int, list[Any]], Answer]) -> None:
        self.script = script
        self.config = {"model_id": "scripted"}

    def update_config(self, **more: Any) -> None:
        self.config.update(more)

    def get_config(self) -> Any:
        return self.config

    async def structured_output(
        self, output_model: type[BaseModel], prompt: Any, system_prompt: str | None = None, **_: Any
    ) -> AsyncIterator[Any]:
        note("ask structured")
        yield {"output": output_model.model_validate({"name": "kelp"})}

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: str | None = None, **_: Any
    ) -> AsyncIterator[Any]:
        seen = sum("toolResult" in block for message in messages for block in message["content"])
        note(f"ask {seen}")
        answer = self.script(seen, messages)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(answer, str):
            yield {"contentBlockStart": {"start": {}}}
            for word in answer.split(" "):
                await asyncio.sleep(0)
                yield {"contentBlockDelta": {"delta": {"text": f"{word} "}}}
            yield {"contentBlockStop": {}}
        else:
            for number, (name, given) in enumerate(answer):
                start = {"toolUse": {"name": name, "toolUseId": f"{name}-{seen}-{number}"}}
                yield {"contentBlockStart": {"start": start}}
                text = json.dumps(given)
                for piece in (text[:3], text[3:]):
                    yield {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}}}
                yield {"contentBlockStop": {}}
        at(f"ask {seen}:after")
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(answer, str) else "tool_use"}}
        usage = {"inputTokens": 10 + seen, "outputTokens": 5, "totalTokens": 15 + seen}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


@tool
def look(what: str) -> str:
    """Look something up.

    Args:
        what: what to look up
    """
    note(f"looked {what}")
    return f"{what} is brown"


@tool
async def pay(n: int) -> dict[str, Any]:
    """Pay somebody.

    Args:
        n: whom
    """
    note(f"pay {n}")
    return {"status": "success", "content": [{"json": {"paid": n}}]}


def is_sent(to: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    sent = LEDGER.exists() and f"sent {to}" in LEDGER.read_text().splitlines()
    return holdfast.Done(f"sent to {to}") if sent else holdfast.NotDone()


@tool
@holdfast.tool(effect="once", verify=is_sent, settle_s=0)
def send(to: str) -> str:
    """Send a letter: it must not be sent twice.

    Args:
        to: whom to write to
    """
    note(f"sent {to}")
    return f"sent to {to}"


EFFECTS: dict[str, Any] = {"look": "read", "pay": "idempotent"}


def script(seen: int, messages: list[Any]) -> Answer:
    """Looks, pays three at once, sends a letter, and ends."""
    if seen == 0:
        return [("look", {"what": "kelp"})]
    if seen == 1:
        return [("pay", {"n": n}) for n in range(3)]
    if seen == 4:
        return [("send", {"to": "Ada"}), ("look", {"what": "rock"})]
    return f"all is done after {seen}"


def agent(script: Callable[[int, list[Any]], Answer] = script, *tools: Any, **more: Any) -> Agent:
    return Agent(
        model=Scripted(script), tools=list(tools or (look, pay, send)), callback_handler=None, **more
    )


async def streamed(made: Any) -> Any:
    return [event["result"] async for event in made.stream_async("Go") if "result" in event][-1]


MODES: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "sync": lambda d: d(agent())("Go"),
    "async": lambda d: asyncio.run(d(agent()).invoke_async("Go")),
    "stream": lambda d: asyncio.run(streamed(d(agent()))),
    "sequential": lambda d: d(agent(tool_executor=SequentialToolExecutor()))("Go"),
}


def made(subject: Agent, **more: Any) -> Any:
    return durable(subject, **{"run": "agent", "effects": EFFECTS, **more})
