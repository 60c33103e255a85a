"""A graph whose node asks its model four times and acts once: ``node.py URL sync|async|parallel KILL_AFTER [plain]``.

It kills itself behind the answer of that number, counted over all of its lives in ``answers``. Started again, it goes on.
"""

import asyncio
import operator
import os
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Annotated, Any, TypedDict

import openai
from langgraph.graph import START, StateGraph

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver, durable_node

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Answers(TypedDict):
    """What the model said."""

    answers: Annotated[list[str], operator.add]


def answered(killed_after: int) -> None:
    """Count an answer, and die behind this one."""
    with Path("answers").open("a") as file:
        file.write("x")
    if len(Path("answers").read_text()) == killed_after and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), SIGKILL)


@holdfast.tool(effect="once")
def act() -> str:
    """An effect."""
    with Path("ledger").open("a") as file:
        file.write("acted\n")
    return "acted"


def graph_of(url: str, mode: str, killed_after: int) -> Any:
    """The graph on the store of the environment."""
    options: Any = {"base_url": url, "api_key": "none", "max_retries": 0, "timeout": 60}

    def question(part: object) -> Any:
        return {"model": "m", "messages": [{"role": "user", "content": f"part {part}"}]}

    def node(state: Answers, name: str = "") -> dict[str, Any]:
        said = []
        with openai.OpenAI(**options) as plain:
            client: Any = holdfast.wrap(plain)
            for part in range(4):
                answer = client.chat.completions.create(**question(f"{part}{name}"))
                said.append(str(answer.choices[0].message.content))
                answered(killed_after)
                if part == 1:
                    said.append(act() if not name else "")
        return {"answers": said}

    async def anode(state: Answers) -> dict[str, Any]:
        said = []
        async with openai.AsyncOpenAI(**options) as plain:
            client: Any = holdfast.wrap(plain)
            for part in range(4):
                answer = await client.chat.completions.create(**question(part))
                said.append(str(answer.choices[0].message.content))
                answered(killed_after)
                if part == 1:
                    said.append(act())
        return {"answers": said}

    builder: Any = StateGraph(Answers)
    if mode == "parallel":

        def left(state: Answers) -> dict[str, Any]:
            return node(state, " left")

        def right(state: Answers) -> dict[str, Any]:
            return node(state, " right")

        for one in (left, right):
            builder.add_node(one.__name__, durable_node(one))
            builder.add_edge(START, one.__name__)
    else:
        builder.add_node("node", durable_node(anode if mode == "async" else node))
        builder.add_edge(START, "node")
    return builder.compile(checkpointer=HoldfastSaver())


def main(url: str, mode: str, killed_after: str) -> None:
    """One turn, begun or continued."""
    graph = graph_of(url, mode, int(killed_after))
    given: Any = None if graph.get_state(CONFIG).created_at else {"answers": []}
    end = asyncio.run(graph.ainvoke(given, CONFIG)) if mode == "async" else graph.invoke(given, CONFIG)
    Path("result").write_text("\n".join(end["answers"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
