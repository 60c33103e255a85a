"""Beside Pydantic AI's own way to keep a conversation: the messages of each run saved when it is over, as its documentation does.

The same agent with a scripted model, the same turns. The messages go into SQLite, one row for each run of the agent, synced.
"""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

import holdfast
from bench.measuring import Figure, size_on_disk
from bench.texts import prose

TURNS = 30
TOOLS = 3
STEPS = TURNS * (TOOLS + 2)
"""Each turn asks the model, calls its tools, and asks it again."""


def figures(place: Path) -> Iterator[Figure]:
    logging_off()
    yield from _beside(place)
    yield from _killed(place)


def make_agent(text: Callable[[], str]) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def answer(messages: Any, _: Any) -> Any:
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        if isinstance(last.parts[-1], ToolReturnPart):
            return ModelResponse(parts=[TextPart(text())])
        return ModelResponse(parts=[ToolCallPart("look", {"at": n}) for n in range(TOOLS)])

    agent = Agent(FunctionModel(answer, model_name="scripted"))

    @agent.tool_plain
    async def look(at: int) -> str:
        await killed_in(at)
        return f"{at}: {text()}"

    return agent


def logging_off() -> None:
    import logging

    logging.getLogger("holdfast").setLevel(logging.ERROR)


def saved(place: Path) -> "tuple[Callable[[], list[Any]], Callable[[bytes], None]]":
    """Their way: the rows so far as a history, and one more row."""
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    database = apsw.Connection(str(place))
    database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, message_list TEXT)")

    def load() -> list[Any]:
        rows = database.execute("SELECT message_list FROM messages ORDER BY id")
        return [message for (row,) in rows for message in ModelMessagesTypeAdapter.validate_json(row)]

    def save(messages: bytes) -> None:
        database.execute("INSERT INTO messages (message_list) VALUES (?)", (messages.decode(),))

    return load, save


def _beside(place: Path) -> Iterator[Figure]:
    """Turn by turn, in turns: bare, theirs, ours."""
    from holdfast.adapters.pydantic_ai import durable

    ours, theirs = place / "holdfast.db", place / "messages.db"
    texts = prose()
    times: dict[str, list[float]] = {"bare": [], "theirs": [], "ours": []}

    async def turn(agent: Any, history: list[Any]) -> Any:
        return await agent.run("And then?", message_history=history)

    async def converse() -> None:
        bare, our_history = list[Any](), list[Any]()
        load, save = saved(theirs)
        their_history = load()
        agent = make_agent(lambda: texts(400))
        async with holdfast.run("talk", store=ours, retention=None):
            wrapped = durable(agent, effects={"look": "read"})
            for _ in range(TURNS):
                began = time.perf_counter()
                bare = (await turn(agent, bare)).all_messages()
                times["bare"].append(time.perf_counter() - began)
                began = time.perf_counter()
                result = await turn(agent, their_history)
                save(result.new_messages_json())
                their_history = result.all_messages()
                times["theirs"].append(time.perf_counter() - began)
                began = time.perf_counter()
                our_history = (await turn(wrapped, our_history)).all_messages()
                times["ours"].append(time.perf_counter() - began)

    asyncio.run(converse())
    holdfast.store(ours).close()
    sizes = size_on_disk(ours), size_on_disk(theirs)
    what = f"{TURNS} turns of {TOOLS + 2} steps"
    facts = f"{sizes[0]:,} and {sizes[1]:,} bytes; ours has every step, theirs whole turns"
    yield Figure(
        f"{what}: our file / Pydantic AI's messages in SQLite", sizes[0] / sizes[1], None, "×", facts
    )
    bare_ms, their_ms, our_ms = (
        statistics.median(times[name]) * 1e3 / (TOOLS + 2) for name in ("bare", "theirs", "ours")
    )
    facts = f"p50 per step: bare {bare_ms:.2f} ms, with messages saved {their_ms:.2f} ms, journaled {our_ms:.2f} ms"
    yield Figure("a step of a durable agent / of the bare one", our_ms / bare_ms, None, "×", facts)


# -- killed ----------------------------------------------------------------------------------------------------------


async def killed_in(at: int) -> None:
    """A line for the effect; and in the last tool of the third turn, once, the end of the process."""
    if "BENCH_LEDGER" not in os.environ:
        return
    await asyncio.sleep(at * 0.1)  # so that those before it have come to their ends
    ledger = Path(os.environ["BENCH_LEDGER"])
    if _written(ledger, at) == 3 * TOOLS and at == TOOLS - 1:
        os.kill(os.getpid(), signal.SIGKILL)


def _written(ledger: Path, at: int) -> int:
    with ledger.open("a") as lines:
        lines.write(f"{at}\n")
    return len(ledger.read_text().splitlines())


def program(way: str, place: Path) -> None:
    """Three turns, kept in one of the two ways; started again until it ends."""
    from holdfast.adapters.pydantic_ai import durable

    logging_off()
    asked = place / "asked"

    def text() -> str:
        with asked.open("a") as lines:
            lines.write("model\n")
        return "so it was"

    agent = make_agent(text)

    async def theirs() -> None:
        load, save = saved(place / "messages.db")
        history = load()
        while sum(message.kind == "response" for message in history) < 6:
            result = await agent.run("And then?", message_history=history)
            save(result.new_messages_json())
            history = result.all_messages()

    async def ours() -> None:
        async with holdfast.run("talk", store=place / "holdfast.db"):
            history: list[Any] = []
            for _ in range(3):
                effects: Any = {"look": "idempotent"}
                result = await durable(agent, effects=effects).run("And then?", message_history=history)
                history = result.all_messages()

    asyncio.run(theirs() if way == "theirs" else ours())


def _killed(place: Path) -> Iterator[Figure]:
    """The last of three tools of the third turn is killed: what is done once more when the program is started again."""
    done: dict[str, int] = {}
    for way in ("theirs", "ours"):
        directory = place / way
        directory.mkdir()
        ledger = directory / "ledger"
        environment = {**os.environ, "BENCH_LEDGER": str(ledger)}
        code = f"from pathlib import Path; from bench.pydantic_ai import program; program({way!r}, Path({str(directory)!r}))"
        for expected in (-signal.SIGKILL, 0):
            ended = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
            assert ended.returncode == expected, ended
        done[way] = len(ledger.read_text().splitlines()) - 3 * TOOLS
    facts = f"started again, theirs calls {done['theirs']} tools a second time and asks the model again; ours the one that was cut off"
    yield Figure("tools called again after a kill in the third of three, ours", done["ours"], 1, "", facts)
    yield Figure(
        "the same, with the messages of whole turns saved", done["theirs"], None, "", json.dumps(done)
    )
