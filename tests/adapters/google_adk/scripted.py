"""Agents with tools that act, and a provider that speaks Gemini and answers by how far the conversation is."""

import json
import os
import signal
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from google.adk.agents import Agent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools import ToolContext
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.genai import types
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


def calls_of(turn: int, calls: Any) -> Reply:
    made = [ToolCall(name, json.dumps(given), f"c-{turn}-{n}") for n, (name, given) in enumerate(calls)]
    return Reply(text="", calls=tuple(made))


def answer_calls(asked: Asked) -> Reply:
    turn = turn_of(asked)
    return Reply(text="done with sea") if turn == len(CALLS) else calls_of(turn, CALLS[turn])


def answer_team(asked: Asked) -> Reply:
    """Each agent pays what its instruction says, once, and is done; the desk calls the clerk first."""
    said = " ".join(text for _, text in asked.messages)
    me = next(one for one in ("desk", "clerk", "left", "right", "last") if f"You are {one}." in said)
    results = [text for role, text in asked.messages if role == "tool"]
    if me == "desk":
        if not results:
            return calls_of(
                0, [("clerk", {"request": "pay the first"}), ("clerk", {"request": "pay the second"})]
            )
        return Reply(text=f"desk is done after {len(results)}")
    if me == "clerk":
        n = 1 if "pay the first" in said else 2
        return Reply(text=f"clerk paid {n}") if results else calls_of(0, [("pay", {"n": n})])
    if me == "last":
        return Reply(text="ok") if results else calls_of(0, [("note", {"text": "end"}), ("exit_loop", {})])
    n = {"left": 10, "right": 20}[me]
    if len(results) < 2:
        return calls_of(len(results), [("pay", {"n": n + len(results)})])
    return Reply(text=f"{me} paid")


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


async def look(place: str, tool_context: ToolContext) -> dict[str, str]:
    """Looks at a place, and keeps it in the session's state."""
    killed_in("look")
    tool_context.state["seen"] = place
    return {"seen": place}


def model_at(url: str) -> Gemini:
    return Gemini(model="gemini-2.5-flash", base_url=url, client_kwargs={"api_key": "none"})


def make_agent(kind: str, url: str, tools: list[Any] | None = None) -> Any:
    """An agent of a kind: ``calls``, or a ``team`` of all kinds of agents."""

    def agent(name: str, tools: list[Any]) -> Agent:
        return Agent(name=name, model=model_at(url), instruction=f"You are {name}.", tools=tools)

    if kind == "calls":
        return agent("desk", [pay, note, look] if tools is None else tools)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        both = ParallelAgent(name="both", sub_agents=[agent("left", [pay]), agent("right", [pay])])
        loop = LoopAgent(name="loop", sub_agents=[agent("last", [note, exit_loop])], max_iterations=3)
        desk = agent("desk", [AgentTool(agent("clerk", [pay]))])
        return SequentialAgent(name="team", sub_agents=[desk, both, loop])


def runner_at(agent: Any) -> InMemoryRunner:
    return InMemoryRunner(agent=agent, app_name="app")


def said_in(event: Any) -> str:
    return "".join(part.text or "" for part in (event.content.parts if event.content else None) or ())


def message(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def config(way: str) -> RunConfig:
    return RunConfig(streaming_mode=StreamingMode.SSE if way == "streamed" else StreamingMode.NONE)


async def events_of(runner: Any, text: str = "go", way: str = "whole", session: str = "s") -> list[Any]:
    """The events of one call of a runner, in a session that it makes if there is none."""
    names = {"app_name": "app", "user_id": "u", "session_id": session}
    if await runner.session_service.get_session(**names) is None:
        await runner.session_service.create_session(**names)
    return [event async for event in started(runner, text, way, session)]


def started(runner: Any, text: Any = "go", way: str = "whole", session: str = "s") -> AsyncIterator[Any]:
    said = message(text) if isinstance(text, str) else text
    return runner.run_async(  # type: ignore[no-any-return]  # ADK is not there to be looked at
        user_id="u", session_id=session, new_message=said, run_config=config(way)
    )


async def answer_of(runner: Any, text: str = "go", way: str = "whole", session: str = "s") -> str:
    events = await events_of(runner, text, way, session)
    return said_in(next(event for event in reversed(events) if said_in(event)))
