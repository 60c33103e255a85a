"""Model calls inside the nodes of a graph: paid once, whatever becomes of the process in between."""

import asyncio
import operator
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import openai
import pytest
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt
from tests.adapters.langgraph.test_threads import config_of
from tests.support.fork_server import fork_server
from tests.support.forked import run as run_process
from tests.support.model_server import Provider

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver, durable_node

PROGRAM = Path(__file__).parent / "programs" / "node.py"


MADE: list[str] = []


@holdfast.tool(effect="once")
def make(name: str) -> str:
    """An effect."""
    MADE.append(name)
    return f"made {name}"


class Answers(TypedDict):
    """What the model said."""

    answers: Annotated[list[str], operator.add]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Most of what a program with a graph takes is what it imports."""
    fork_server().load("openai", "langgraph.graph", "holdfast.adapters.langgraph")


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider in a thread of this test."""
    with Provider() as started:
        yield started


def asked(provider: Provider) -> Counter[str]:
    """How often each question was asked."""
    return Counter(str(one.body["messages"][-1]["content"]) for one in provider.calls)


@pytest.mark.parametrize(("mode", "killed_after"), [("sync", 1), ("sync", 3), ("async", 2), ("async", 4)])
def test_a_killed_node_pays_no_finished_call_again(
    tmp_path: Path, provider: Provider, mode: str, killed_after: int
) -> None:
    """Killed with SIGKILL behind each of four answers: four requests in all, one effect, the same result."""
    environment = {**os.environ, "HOLDFAST_URL": f"sqlite:///{tmp_path / 'h.db'}"}
    command = [sys.executable, str(PROGRAM), provider.base_url, mode, str(killed_after)]
    codes = [run_process(command, cwd=tmp_path, env=environment, check=False).returncode for _ in range(2)]
    assert codes == [-9, 0]
    assert asked(provider) == {f"part {part}": 1 for part in range(4)}
    assert (tmp_path / "ledger").read_text() == "acted\n"
    calm = tmp_path / "calm"
    calm.mkdir()
    environment["HOLDFAST_URL"] = f"sqlite:///{calm / 'h.db'}"
    run_process([*command[:-1], "0"], cwd=calm, env=environment, check=True)
    assert (tmp_path / "result").read_text() == (calm / "result").read_text()


@pytest.mark.parametrize("killed_after", [2, 5])
def test_killed_nodes_that_run_at_once(tmp_path: Path, provider: Provider, killed_after: int) -> None:
    """Each has its calls to itself; at most the call that the other had in flight is asked again."""
    environment = {**os.environ, "HOLDFAST_URL": f"sqlite:///{tmp_path / 'h.db'}"}
    command = [sys.executable, str(PROGRAM), provider.base_url, "parallel", str(killed_after)]
    codes = [run_process(command, cwd=tmp_path, env=environment, check=False).returncode for _ in range(2)]
    assert codes == [-9, 0]
    times = asked(provider)
    assert set(times) == {f"part {part} {side}" for part in range(4) for side in ("left", "right")}
    assert sum(times.values()) <= 9
    assert (tmp_path / "result").exists()


def graph_of(node: Any, saver: Any, **options: Any) -> Any:
    """A graph of this one node."""
    builder: Any = StateGraph(Answers)
    builder.add_node("node", node, **options)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=saver)


def test_a_node_that_fails_is_tried_again_without_its_finished_calls(provider: Provider) -> None:
    """By LangGraph's own retry, and by the next turn; another turn is another task, and asks anew."""
    fails = [1, 1]
    saver = HoldfastSaver(f"memory://{uuid4().hex}")
    with openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0) as plain:
        client = holdfast.wrap(plain)

        @durable_node
        def node(_: Answers) -> Any:
            message: Any = {"role": "user", "content": "one"}
            answer = client.chat.completions.create(model="m", messages=[message])
            if fails:
                fails.pop()
                raise ConnectionError("later")
            return {"answers": [answer.choices[0].message.content]}

        retried = graph_of(node, saver, retry_policy=RetryPolicy(max_attempts=2, initial_interval=0.001))
        with pytest.raises(ConnectionError):
            retried.invoke({"answers": []}, config_of("t"))
        retried.invoke(None, config_of("t"))
        assert asked(provider) == {"one": 1}
        retried.invoke({"answers": []}, config_of("t"))
        assert asked(provider) == {"one": 2}


def test_a_node_that_asks_a_person_pays_once(provider: Provider) -> None:
    """It runs again from its first line with the answer; the call before the question does not."""
    saver = HoldfastSaver(f"memory://{uuid4().hex}")

    async def all_of_it() -> None:
        async with openai.AsyncOpenAI(base_url=provider.base_url, api_key="none", max_retries=0) as plain:
            client = holdfast.wrap(plain)

            async def node(_: Answers) -> Any:
                message: Any = {"role": "user", "content": "one"}
                answer = await client.chat.completions.create(model="m", messages=[message])
                return {"answers": [f"{answer.choices[0].message.content} {interrupt('good?')}"]}

            graph = graph_of(durable_node(node), saver)
            await graph.ainvoke({"answers": []}, config_of("t"))
            end = await graph.ainvoke(Command(resume="yes"), config_of("t"))
            assert end["answers"][0].endswith(" yes")

    asyncio.run(all_of_it())
    assert asked(provider) == {"one": 1}


def test_going_back_asks_again(provider: Provider) -> None:
    """From an older checkpoint the node is another task, as everything in LangGraph."""
    saver = HoldfastSaver(f"memory://{uuid4().hex}")
    with openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0) as plain:
        client = holdfast.wrap(plain)

        def node(_: Answers) -> Any:
            message: Any = {"role": "user", "content": "one"}
            return {"answers": [client.chat.completions.create(model="m", messages=[message]).id]}

        graph = graph_of(durable_node(node), saver)
        graph.invoke({"answers": []}, config_of("t"))
        *_, first = graph.get_state_history(config_of("t"))
        graph.invoke(None, first.config)
    assert asked(provider) == {"one": 2}


def test_a_tool_in_a_task_of_an_entrypoint() -> None:
    """Tasks are nodes, too: their tools are steps of the thread's run, which is idle afterwards."""

    @durable_node
    def work(name: str) -> str:
        return f"{make(name)} {interrupt('go on?')}"

    saver = HoldfastSaver(f"memory://{uuid4().hex}")

    @entrypoint(checkpointer=saver)
    def graph(name: str) -> Any:
        return task(work)(name).result()

    graph.invoke("a", config_of("t"))
    assert graph.invoke(Command(resume="!"), config_of("t")) == "made a !"
    assert MADE == ["a"]
    assert [info.run for info in saver.store.runs()] == ["langgraph/t"]
    assert saver.store.get("langgraph/t").status == "idle"


def test_without_our_saver_it_is_the_plain_node() -> None:
    """And its name, signature and documentation are those of the function."""

    def node(state: Answers) -> Any:
        """Answer."""
        return {"answers": ["x"]}

    made = durable_node(node)
    assert (made.__name__, made.__doc__) == ("node", "Answer.")
    assert made({"answers": []}) == {"answers": ["x"]}
    assert graph_of(made, None).invoke({"answers": []})["answers"] == ["x"]


def test_what_is_no_function_is_refused() -> None:
    """A tool node has tools of its own to be made durable, and a graph has nodes."""
    with pytest.raises(holdfast.Misuse, match="takes the function of a node"):
        durable_node(ToolNode([]))  # type: ignore[type-var]
