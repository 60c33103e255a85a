"""Agents with tools that act, and a provider that answers by how far the conversation is."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI
from openai import AsyncOpenAI
from tests.support.model_server import Asked, Reply, ToolCall

EFFECTS: Any = {"note": "idempotent", "look": "read"}
CALLS: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (("look", {"place": "sea"}),),
    (("pay", {"n": 0}), ("pay", {"n": 1})),
    (("note", {"text": "sea"}), ("pay", {"n": 7})),
)
"""What the model wants in each of its turns, before it is done."""


def turn_of(asked: Asked) -> int:
    return sum(role == "assistant" for role, _ in asked.messages)


def answer_calls(asked: Asked) -> Reply:
    turn = turn_of(asked)
    if turn == len(CALLS):
        return Reply(text="done with sea")
    calls = [
        ToolCall(name, json.dumps(given), f"call-{turn}-{n}") for n, (name, given) in enumerate(CALLS[turn])
    ]
    return Reply(text="", calls=tuple(calls))


def answer_react(asked: Asked) -> Reply:
    """The same as text, one call in each turn."""
    every = [call for turn in CALLS for call in turn]
    turn = turn_of(asked)
    if turn == len(every):
        return Reply(text="Thought: I can answer.\nAnswer: done with sea")
    name, given = every[turn]
    return Reply(text=f"Thought: I act.\nAction: {name}\nAction Input: {json.dumps(given)}")


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


async def look(ctx: Context, place: str) -> str:
    """Looks at a place, and keeps it in the agent's state."""
    killed_in("look")
    async with ctx.store.edit_state() as state:
        state["state"]["seen"] = place
    return f"seen {place}"


def llm_at(base_url: str) -> OpenAI:
    client = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0)
    CLIENTS.append(client)
    return OpenAI(model="gpt-4o", api_base=base_url, api_key="none", async_openai_client=client)


CLIENTS: list[AsyncOpenAI] = []
"""Those that are open; the loop that used them closes them."""


async def close_clients() -> None:
    while CLIENTS:
        await CLIENTS.pop().close()


def make_agent(kind: str, base_url: str, tools: list[Any] | None = None, **options: Any) -> Any:
    """An agent of a kind: ``calls``, ``react``, or ``team``, a workflow with one agent."""
    cls = ReActAgent if kind == "react" else FunctionAgent
    given = [pay, note, look] if tools is None else tools
    state = {"seen": ""}
    agent = cls(tools=given, llm=llm_at(base_url), initial_state={} if kind == "team" else state, **options)
    if kind != "team":
        return agent
    return AgentWorkflow(agents=[agent], root_agent=agent.name, initial_state=state)
