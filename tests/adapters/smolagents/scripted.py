"""Agents of both kinds with tools that act, and a provider that answers by how far the conversation is."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from smolagents import CodeAgent, OpenAIModel, Tool, ToolCallingAgent, tool
from tests.support.model_server import Asked, Reply, ToolCall

EFFECTS: Any = {"note": "idempotent", "look": "read"}
CODE = (
    "Look first.\n<code>\nfound = look('sea')\nprint(found['seen'])\n</code>",
    "Then pay.\n<code>\nfor n in range(2):\n    print(pay(n))\n</code>",
    "Note it.\n<code>\nprint(note(text=found['seen']))\nprint(pay(7))\n</code>",
    "<code>\nfinal_answer('done with ' + found['seen'])\n</code>",
)
"""What an agent that writes code is answered, one for each of its turns."""
CALLS: tuple[tuple[tuple[str, dict[str, Any]], ...], ...] = (
    (("look", {"place": "sea"}),),
    (("pay", {"n": 0}), ("pay", {"n": 1})),
    (("note", {"text": "sea"}), ("pay", {"n": 7})),
    (("final_answer", {"answer": "done with sea"}),),
)
"""What an agent that calls tools is answered."""


def turn_of(asked: Asked) -> int:
    return sum(role == "assistant" for role, _ in asked.messages)


def answer_code(asked: Asked) -> Reply:
    return Reply(text=CODE[turn_of(asked)])


def answer_calls(asked: Asked) -> Reply:
    turn = turn_of(asked)
    calls = [
        ToolCall(name, json.dumps(given), f"call-{turn}-{n}") for n, (name, given) in enumerate(CALLS[turn])
    ]
    return Reply(text="", calls=tuple(calls))


def write(line: str) -> None:
    with Path("ledger").open("a") as ledger:
        ledger.write(line + "\n")


def killed_in(name: str) -> None:
    if os.environ.get("DIE_IN") == name:
        os.kill(os.getpid(), signal.SIGKILL)


@tool
def pay(n: int) -> str:
    """Pays.

    Args:
        n: how much
    """
    write(f"pay {n}")
    killed_in("pay")
    return f"did pay {n}"


@tool
def note(text: str) -> str:
    """Notes a text, once.

    Args:
        text: the text
    """
    if not Path("ledger").exists() or f"note {text}" not in Path("ledger").read_text():
        write(f"note {text}")
    killed_in("note")
    return f"did note {text}"


@tool
def look(place: str) -> dict:  # type: ignore[type-arg]  # smolagents reads it
    """Looks at a place.

    Args:
        place: where
    """
    killed_in("look")
    return {"seen": place}


def model_at(base_url: str, **options: Any) -> OpenAIModel:
    return OpenAIModel("scripted", api_base=base_url, api_key="none", **options)


def make_agent(kind: str, base_url: str, tools: list[Tool] | None = None, **options: Any) -> Any:
    """An agent of a kind, ``code`` or ``calls``."""
    cls = CodeAgent if kind == "code" else ToolCallingAgent
    given = [pay, note, look] if tools is None else tools
    return cls(tools=given, model=model_at(base_url), verbosity_level=0, **options)
