"""Beside the OpenAI Agents SDK's own SQLiteSession: the same agent, the same run, on the same disk; no network.

The agent asks a scripted model, which calls one tool a turn. What a kill costs is counted in processes of their own.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holdfast
from bench.measuring import Figure, size_on_disk
from bench.texts import prose, turns

TURNS = 30
ROUNDS = 3
KILLED_AT = 3
PROGRAM = """
import asyncio, sys
from bench.openai_agents import killed
asyncio.run(killed(*sys.argv[1:]))
"""


def figures(place: Path) -> Iterator[Figure]:
    """What a kill inside a tool costs; then what lies on disk, how long a turn takes, and how long a program starts."""
    theirs, ours = (_after_a_kill(place, who) for who in ("sdk", "holdfast"))
    facts = "killed inside the tool of turn {}, started again: SQLiteSession {}, ours {}"
    for number, what in enumerate(("model calls paid for twice", "effects twice")):
        told = facts.format(KILLED_AT, theirs[number], ours[number])
        yield Figure(f"Agents SDK: {what}", ours[number], 0, "", told)
    sizes, times = dict[str, list[int]](), dict[str, list[float]]()
    for number in range(ROUNDS):
        for who in ("sdk", "holdfast"):
            database = place / f"{who}-{number}.db"
            began = time.perf_counter()
            asyncio.run(talk(who, database, TURNS))
            times.setdefault(who, []).append((time.perf_counter() - began) / TURNS * 1e3)
            sizes.setdefault(who, []).append(size_on_disk(database))
    fast = {who: min(taken) for who, taken in times.items()}
    told = f"{TURNS} turns, best of {ROUNDS}: SQLiteSession {fast['sdk']:.1f} ms a turn, ours {fast['holdfast']:.1f} ms"
    yield Figure(
        "Agents SDK: a turn with ours / SQLiteSession", fast["holdfast"] / fast["sdk"], None, "×", told
    )
    size = {who: min(found) for who, found in sizes.items()}
    told = f"SQLiteSession {size['sdk']:,} bytes (items), ours {size['holdfast']:,} (items, requests, answers, calls)"
    yield Figure("Agents SDK: bytes of ours / SQLiteSession", size["holdfast"] / size["sdk"], None, "×", told)


async def talk(who: str, database: Path, count: int, tool: Any = None) -> Any:
    """The agent's run of so many turns, with the one persistence or the other."""
    from agents import Agent, Runner, SQLiteSession, function_tool

    from holdfast.adapters.openai_agents import HoldfastSession, durable

    words = turns(prose())

    @function_tool
    def note(number: int) -> str:
        if tool is not None:
            tool(number)
        return " ".join(str(message["content"]) for message in next(words))

    agent = Agent[Any](name="Desk", tools=[note], model=_model(count))
    if who == "sdk":
        session = SQLiteSession("desk", str(database))
        try:
            return (await Runner.run(agent, "Begin.", session=session, max_turns=count + 2)).final_output
        finally:
            session.close()
    async with durable("run", store=database, effects={"note": "idempotent"}):
        result = await Runner.run(agent, "Begin.", session=HoldfastSession("desk"), max_turns=count + 2)
    holdfast.store(database).close()
    return result.final_output


def _model(count: int) -> Any:
    """It calls the tool so many times, and counts in a file how often it was asked, where one is named."""
    from agents import set_tracing_disabled
    from tests.adapters.openai_agents.scripted import Scripted, call, results, say

    set_tracing_disabled(True)

    def turn(said: list[Any]) -> list[Any]:
        done = len(results(said))
        return [say("done")] if done >= count else [call(f"c{done}", "note", number=done)]

    return Scripted(turn, file=os.environ.get("ASKED", ""))


async def killed(who: str, database: str, die: str) -> None:
    """A run whose tool notes what it does, and dies in the middle of it if it is told to."""

    def tool(number: int) -> None:
        done = Path(os.environ["DONE"])
        if who == "holdfast" and f"{number}\n" in (done.read_text() if done.exists() else ""):
            return  # it is declared idempotent: it is called again with what it was called with
        with done.open("a") as file:
            file.write(f"{number}\n")
        if die and number == KILLED_AT - 1:
            os.kill(os.getpid(), 9)

    await talk(who, Path(database), KILLED_AT + 2, tool)


def _after_a_kill(place: Path, who: str) -> tuple[int, int]:
    """How many model calls were paid for twice, and how many effects happened twice."""
    asked, done = place / f"{who}-asked", place / f"{who}-done"
    environment = {**os.environ, "ASKED": str(asked), "DONE": str(done)}
    for die in ("1", ""):
        command = [sys.executable, "-c", PROGRAM, who, str(place / f"{who}-killed.db"), die]
        subprocess.run(command, env=environment, check=not die, capture_output=True)
    effects = done.read_text().splitlines()
    return len(asked.read_text().splitlines()) - (KILLED_AT + 3), len(effects) - len(set(effects))
