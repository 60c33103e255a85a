"""Agents with tools that act, and a provider that answers by how far the conversation is."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from agent_framework import Agent, FunctionInvocationContext, WorkflowBuilder
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from openai import AsyncOpenAI
from tests.support.model_server import Asked, Reply, ToolCall

EFFECTS: Any = {"note": "idempotent", "look": "read"}
CALLS: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (("look", {"place": "sea"}),),
    (("pay", {"n": 0}), ("pay", {"n": 1})),
    (("note", {"text": "sea"}), ("pay", {"n": 7})),
)
"""What the model wants in each of its turns, before it is done."""


def answer_calls(asked: Asked) -> Reply:
    """By the results that the model has seen: both APIs send them."""
    seen, turn = sum(role == "tool" for role, _ in asked.messages), 0
    while turn < len(CALLS) and seen > 0:
        seen -= len(CALLS[turn])
        turn += 1
    if turn == len(CALLS):
        return Reply(text="done with sea")
    calls = [
        ToolCall(name, json.dumps(given), f"call-{turn}-{n}") for n, (name, given) in enumerate(CALLS[turn])
    ]
    return Reply(text="", calls=tuple(calls))


def write(line: str) -> None:
    with Path("ledger").open("a") as ledger:
        ledger.write(line + "\n")


def write_once(line: str) -> None:
    if not Path("ledger").exists() or line not in Path("ledger").read_text():
        write(line)


def killed_in(name: str) -> None:
    if os.environ.get("DIE_IN") == name:
        os.kill(os.getpid(), signal.SIGKILL)


def pay(n: int) -> str:
    """Pays."""
    write(f"pay {n}")
    killed_in("pay")
    return f"did pay {n}"


async def note(text: str) -> str:
    """Notes a text, once."""
    write_once(f"note {text}")
    killed_in("note")
    return f"did note {text}"


async def look(ctx: FunctionInvocationContext, place: str) -> str:
    """Looks at a place, and keeps it in the session's state."""
    killed_in("look")
    if ctx.session is not None:
        ctx.session.state["seen"] = place
    return f"seen {place}"


CLIENTS: list[AsyncOpenAI] = []
"""Those that are open; the loop that used them closes them."""


async def close_clients() -> None:
    while CLIENTS:
        await CLIENTS.pop().close()


def client_at(base_url: str, api: str = "chat") -> Any:
    """A client of Agent Framework: for chat completions, or for responses."""
    client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
    CLIENTS.append(client)
    cls = OpenAIChatClient if api == "responses" else OpenAIChatCompletionClient
    return cls(model="gpt-4o", async_client=client)


def make_agent(kind: str, base_url: str, tools: list[Any] | None = None, **options: Any) -> Agent:
    """An agent over one of the two APIs: ``chat`` or ``responses``."""
    if kind == "responses":  # each request whole, as the scripted provider knows no earlier ones
        options["default_options"] = {"store": False, **options.get("default_options", {})}
    given = [pay, note, look] if tools is None else tools
    return Agent(client_at(base_url, kind), tools=given, **{"name": "clerk", **options})


def make_team(base_url: str) -> Any:
    """A workflow: an agent with tools, and one that reads what it said."""
    clerk = make_agent("chat", base_url)
    reader = make_agent("chat", base_url, [], name="reader")
    return WorkflowBuilder(start_executor=clerk).add_edge(clerk, reader).build()
