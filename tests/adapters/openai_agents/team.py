"""Agents of the SDK, as a program to kill.

A desk asks three tools at once and hands over to a writer, who has a researcher as a tool. What the models are asked, they
write to ``asked``; what the tools do, to ``done``. ``DIE_IN`` names the tool to die in, when all three are under way.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents import Agent, Runner, function_tool
from agents.usage import serialize_usage
from tests.adapters.openai_agents.scripted import Scripted, call, results, say, tell

import holdfast
from holdfast.adapters.openai_agents import HoldfastSession, durable

EFFECTS: Any = {"look": "read", "note": "idempotent"}


def done(tool: str, what: str) -> bool:
    path = Path("done")
    return path.exists() and f'["{tool}", "{what}"]' in path.read_text().splitlines()


def die_in(tool: str) -> None:
    if os.environ.get("DIE_IN") == tool:
        os.kill(os.getpid(), signal.SIGKILL)


@function_tool
async def look(what: str) -> str:
    """Look something up."""
    tell("looked", what)
    die_in("look")
    return f"{what} is fine"


@function_tool
def note(what: str) -> str:
    """Note something, once."""
    if not done("note", what):
        tell("done", "note", what)
    die_in("note")
    return f"noted {what}"


def find_payment(what: str) -> holdfast.Done | holdfast.NotDone:
    return holdfast.Done(f"paid for {what}") if done("pay", what) else holdfast.NotDone()


@function_tool
@holdfast.tool(effect="once", verify=find_payment, settle_s=0)
def pay(what: str) -> str:
    """Pay for something."""
    tell("done", "pay", what)
    die_in("pay")
    return f"paid for {what}"


def desk_turn(said: list[Any]) -> list[Any]:
    if not results(said):
        return [call("c1", "look", what="air"), call("c2", "note", what="bee"), call("c3", "pay", what="cow")]
    is_alone = sys.argv[1] == "alone"  # then there is less to walk through
    return [say("; ".join(results(said)))] if is_alone else [call("c4", "transfer_to_writer")]


def writer_turn(said: list[Any]) -> list[Any]:
    found = results(said)
    return [call("c5", "ask_researcher", input="dew")] if len(found) < 5 else [say("; ".join(found))]


def researcher_turn(said: list[Any]) -> list[Any]:
    found = results(said)
    return [say(f"I found: {found[0]}")] if found else [call("c6", "look", what="dew")]


def team() -> Agent[Any]:
    def model(name: str, turn: Callable[..., Any]) -> Scripted:
        return Scripted(turn, file="asked", name=name)

    researcher = Agent(name="Researcher", tools=[look], model=model("researcher", researcher_turn))
    asking = researcher.as_tool("ask_researcher", "Have something found out.")
    writer = Agent(name="Writer", tools=[asking], model=model("writer", writer_turn))
    return Agent(name="Desk", tools=[look, note, pay], handoffs=[writer], model=model("desk", desk_turn))


async def told(session: HoldfastSession, result: Any) -> dict[str, Any]:
    return {
        "output": result.final_output,
        "agent": result.last_agent.name,
        "usage": serialize_usage(result.context_wrapper.usage),
        "items": [item.type for item in result.new_items],
        "session": await session.get_items(),
    }


async def run_async() -> None:
    async with durable("team", effects=EFFECTS) as run:
        session = HoldfastSession("desk")
        await run.finish(await told(session, await Runner.run(team(), "Begin.", session=session)))


async def run_streamed() -> None:
    async with durable("team", effects=EFFECTS) as run:
        session = HoldfastSession("desk")
        result = Runner.run_streamed(team(), "Begin.", session=session)
        text = ""
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                text += event.data.delta
        await run.finish({**await told(session, result), "words": text.split()})


def run_sync() -> None:
    with durable("team", effects=EFFECTS) as run:
        session = HoldfastSession("desk")
        result = Runner.run_sync(team(), "Begin.", session=session)
        run.finish(asyncio.get_event_loop_policy().get_event_loop().run_until_complete(told(session, result)))


def main(mode: str) -> None:
    if mode == "sync":
        run_sync()
    else:
        asyncio.run(run_streamed() if mode == "streamed" else run_async())


async def warm_up() -> None:
    """What the SDK does at its first call takes longer than all else: done here, children that fork need not do it."""
    agent: Agent[Any] = Agent(name="Warm", tools=[], model=Scripted(lambda _: [say("hot")]))
    await Runner.run(agent, "Begin.")
    async for _ in Runner.run_streamed(agent, "Begin.").stream_events():
        pass


asyncio.run(warm_up())
