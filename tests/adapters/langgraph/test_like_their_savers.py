"""Programs do the same over HoldfastSaver and over LangGraph's own saver: what they see is compared, word by word.

Each program is written as a generator of what it sees, blocking and async, and runs over LangGraph's saver first.
"""

import asyncio
import operator
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt
from tests.adapters.langgraph.observed import Observed

from holdfast.adapters.langgraph import HoldfastSaver, HoldfastStore

Program = Callable[["Turns", Any], AsyncIterator[Any]]
HERE: Any = {"configurable": {"thread_id": "t"}}
DURABILITIES = ("sync", "async", "exit")


class Lines(TypedDict):
    """A state that grows."""

    lines: Annotated[list[str], operator.add]


class Turns:
    """A graph by its blocking or its async methods: programs are written once."""

    def __init__(self, *, is_async: bool, durability: str) -> None:
        self.is_async = is_async
        self.options = {"durability": durability}

    async def invoke(self, graph: Any, given: Any, config: Any = HERE, **more: Any) -> Any:
        """A turn."""
        options = {**self.options, **more}
        if self.is_async:
            return await graph.ainvoke(given, config, **options)
        return graph.invoke(given, config, **options)

    async def stream(self, graph: Any, given: Any, config: Any = HERE, **more: Any) -> list[Any]:
        """All pieces of a turn."""
        return [one async for one in self.pieces(graph, given, config, **more)]

    async def pieces(self, graph: Any, given: Any, config: Any = HERE, **more: Any) -> AsyncIterator[Any]:
        """A turn, piece by piece."""
        options = {**self.options, **more}
        if self.is_async:
            async for one in graph.astream(given, config, **options):
                yield one
            return
        for one in graph.stream(given, config, **options):
            yield one

    async def state(self, graph: Any, config: Any = HERE, **more: Any) -> Any:
        """The state at a config."""
        return await graph.aget_state(config, **more) if self.is_async else graph.get_state(config, **more)

    async def history(self, graph: Any, config: Any = HERE, **more: Any) -> list[Any]:
        """All states."""
        if self.is_async:
            return [one async for one in graph.aget_state_history(config, **more)]
        return [*graph.get_state_history(config, **more)]

    async def update(self, graph: Any, config: Any, values: Any, **more: Any) -> Any:
        """An update by hand."""
        if self.is_async:
            return await graph.aupdate_state(config, values, **more)
        return graph.update_state(config, values, **more)


def line(*names: str, ends: bool = True, **options: Any) -> Any:
    """A builder of a graph whose nodes run one after the other; each adds its name."""
    builder: Any = StateGraph(Lines)
    for name in names:
        builder.add_node(name, options.get(name) or (lambda _, name=name: {"lines": [name]}))
    for before, after in zip((START, *names), (*names, *((END,) if ends else ())), strict=False):
        builder.add_edge(before, after)
    return builder


def wait_for(condition: Callable[[], bool], within_s: float = 30) -> None:
    """Until it is so."""
    until = monotonic() + within_s
    while not condition():
        assert monotonic() < until
        sleep(0.005)


# -- programs ------------------------------------------------------------------------------------------------------


async def turns_and_history(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """Two turns, all streams, the history, and parts of it."""
    graph = line("a", "b").compile(checkpointer=saver)
    for mode in ("values", "updates", "checkpoints", "debug", "tasks"):
        yield await turns.stream(graph, {"lines": [mode]}, stream_mode=mode)
    yield await turns.state(graph)
    history = await turns.history(graph)
    yield history
    yield await turns.history(graph, limit=2)
    yield await turns.history(graph, filter={"source": "input"})
    yield await turns.history(graph, before=history[1].config)


async def time_travel(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """Going back to each checkpoint: played again, continued with new input, and updated by hand."""
    graph = line("a", "b").compile(checkpointer=saver)
    for given in ("one", "two"):
        yield await turns.invoke(graph, {"lines": [given]})
    history = await turns.history(graph)
    for old in history:
        yield await turns.invoke(graph, None, old.config)
        yield await turns.state(graph, old.config)
    for old in history[:3]:
        yield await turns.invoke(graph, {"lines": ["again"]}, old.config)
        forked = await turns.update(graph, old.config, {"lines": ["by hand"]}, as_node="a")
        yield forked
        yield await turns.state(graph, forked)
        yield await turns.invoke(graph, None, forked)
    yield await turns.history(graph)


async def copies(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """A copy of every checkpoint, the first included, goes on by itself."""
    graph = line("a").compile(checkpointer=saver)
    yield await turns.invoke(graph, {"lines": ["one"]})
    for old in await turns.history(graph):
        copied = await turns.update(graph, old.config, None, as_node="__copy__")
        yield await turns.state(graph, copied)
        yield await turns.invoke(graph, None, copied)
    yield await turns.history(graph)


async def static_interrupts(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """A graph that stops before and after nodes, is updated by hand meanwhile, and goes on."""
    graph = line("a", "b", "c").compile(checkpointer=saver, interrupt_before=["b"], interrupt_after=["b"])
    yield await turns.stream(graph, {"lines": []})
    yield await turns.state(graph)
    yield await turns.update(graph, HERE, {"lines": ["by hand"]})
    yield await turns.stream(graph, None)
    yield (await turns.state(graph)).next
    yield await turns.stream(graph, None)
    yield await turns.history(graph)


async def questions(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """Nodes that ask: one after the other, twice in one node, and two at once, answered by id."""

    def twice(_: Lines) -> Any:
        return {"lines": [interrupt("first?"), interrupt("second?")]}

    graph = line("twice", twice=twice).compile(checkpointer=saver)
    yield await turns.stream(graph, {"lines": []})
    yield await turns.stream(graph, Command(resume="yes"))
    yield await turns.state(graph)
    yield await turns.stream(graph, Command(resume="no"))
    yield await turns.history(graph)
    builder: Any = StateGraph(Lines)
    for name in ("left", "right"):
        builder.add_node(name, lambda _, name=name: {"lines": [f"{name}: {interrupt(name)}"]})
        builder.add_edge(START, name)
    graph, other = builder.compile(checkpointer=saver), {"configurable": {"thread_id": "u"}}
    yield await turns.invoke(graph, {"lines": []}, other)
    asked = sorted((await turns.state(graph, other)).interrupts, key=lambda one: str(one.value))
    yield asked
    yield await turns.invoke(graph, Command(resume={asked[0].id: "1"}), other)
    yield await turns.state(graph, other)
    yield await turns.invoke(graph, Command(resume={asked[1].id: "2"}), other)
    yield await turns.history(graph, other)


async def failures(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """Of two nodes at once one fails, after the writes of the other are stored; the next turn runs only that one."""
    ran: list[str] = []

    def fine(_: Lines) -> Any:
        ran.append("fine")
        return {"lines": ["fine"]}

    def fails_once(_: Lines) -> Any:
        ran.append("fails")
        if ran.count("fails") == 1:
            wait_for(lambda: "lines" in [name for _, name, _ in saver.get_tuple(HERE).pending_writes])
            raise ValueError("once")
        return {"lines": ["mended"]}

    builder: Any = StateGraph(Lines)
    for name, node in (("fine", fine), ("fails", fails_once)):
        builder.add_node(name, node)
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="once"):
        await turns.invoke(graph, {"lines": ["in"]}, durability="sync")
    yield await turns.state(graph)
    yield await turns.invoke(graph, None)
    yield sorted(ran)
    yield await turns.history(graph)


async def sends(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """A node sends many tasks, one of which jumps elsewhere."""

    def work(given: Any) -> Any:
        if given == 2:
            return Command(goto="last", update={"lines": ["jump"]})
        return {"lines": [f"work {given}"]}

    builder: Any = StateGraph(Lines)
    builder.add_node("work", work)
    builder.add_node("last", lambda _: {"lines": ["last"]})
    builder.add_conditional_edges(START, lambda _: [Send("work", n) for n in range(4)])
    graph = builder.compile(checkpointer=saver)
    yield await turns.invoke(graph, {"lines": ["in"]})
    yield await turns.history(graph)
    yield await turns.invoke(graph, None, (await turns.history(graph))[0].config)


async def subgraphs(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """A graph in a graph that asks, two levels down: its states, its update, its answer, and going back in it."""

    def ask(_: Lines) -> Any:
        return {"lines": [f"told {interrupt('what?')}"]}

    inner = line("ask", "after", ask=ask).compile()
    middle = line("inner", inner=inner).compile()
    graph = line("first", "middle", "last", middle=middle).compile(checkpointer=saver)
    yield await turns.stream(graph, {"lines": ["in"]}, subgraphs=True)
    asked = await turns.state(graph, subgraphs=True)
    yield asked
    inside = asked.tasks[0].state.config
    yield await turns.state(graph, inside)
    yield await turns.history(graph, inside)
    yield await turns.update(graph, inside, {"lines": ["by hand"]}, as_node="__start__")
    yield await turns.stream(graph, Command(resume="this"), subgraphs=True)
    yield await turns.state(graph)
    history = await turns.history(graph)
    yield history
    for old in history:
        yield await turns.invoke(graph, None, old.config)
    yield await turns.invoke(graph, Command(resume="that"))
    yield await turns.state(graph)


async def lasting_subgraph(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """A graph in a graph that keeps its own state from turn to turn."""
    inner = line("in").compile(checkpointer=True)

    async def outer(state: Lines) -> Any:
        made = await inner.ainvoke({"lines": state["lines"][-1:]})
        return {"lines": [str(len(made["lines"]))]}

    def blocking_outer(state: Lines) -> Any:
        return {"lines": [str(len(inner.invoke({"lines": state["lines"][-1:]})["lines"]))]}

    graph = line("outer", outer=outer if turns.is_async else blocking_outer).compile(checkpointer=saver)
    for given in ("one", "two", "three"):
        yield await turns.invoke(graph, {"lines": [given]})
    yield await turns.history(graph)


async def functions(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """An entrypoint with tasks: what it had the last time, a question, and tasks that do not run again."""
    ran: list[int] = []

    @task
    def double(number: int) -> int:
        ran.append(number)
        return 2 * number

    @entrypoint(checkpointer=saver)
    def work(number: int, *, previous: Any = None) -> Any:
        doubled = [double(one).result() for one in range(number)]
        answer = interrupt("go on?")
        return entrypoint.final(value=(answer, doubled, previous), save=sum(doubled))

    @entrypoint(checkpointer=saver)
    async def awork(number: int, *, previous: Any = None) -> Any:
        doubled = [await double(one) for one in range(number)]
        answer = interrupt("go on?")
        return entrypoint.final(value=(answer, doubled, previous), save=sum(doubled))

    graph = awork if turns.is_async else work
    for number in (3, 2):
        yield await turns.invoke(graph, number)
        yield await turns.invoke(graph, Command(resume="yes"))
        yield ran
    yield await turns.history(graph)


async def threads(turns: Turns, saver: Any) -> AsyncIterator[Any]:
    """Threads do not see each other; a deleted one begins anew; metadata of a config is kept."""
    graph = line("a").compile(checkpointer=saver)
    other: Any = {"configurable": {"thread_id": "u", "user": "ada"}, "metadata": {"kind": "test"}}
    yield await turns.invoke(graph, {"lines": ["t"]})
    yield await turns.invoke(graph, {"lines": ["u"]}, other)
    yield (await turns.state(graph, other)).metadata
    yield [one.metadata for one in await turns.history(graph, other)]
    saver.delete_thread("t")
    yield await turns.state(graph)
    yield await turns.history(graph)
    yield await turns.invoke(graph, {"lines": ["new"]})
    yield await turns.state(graph, other)


PROGRAMS: list[Program] = [
    turns_and_history,
    time_travel,
    copies,
    static_interrupts,
    questions,
    failures,
    sends,
    subgraphs,
    lasting_subgraph,
    functions,
    threads,
]


def seen_by(program: Program, saver: Any, *, is_async: bool, durability: str) -> list[Any]:
    """What the program sees over this saver."""

    async def all_of_it() -> list[Any]:
        observed, turns = Observed(), Turns(is_async=is_async, durability=durability)
        return [observed(one) async for one in program(turns, saver)]

    return asyncio.run(all_of_it())


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_sees_the_same(program: Program, is_async: bool, durability: str) -> None:
    """Over LangGraph's saver and over ours."""
    theirs = seen_by(program, InMemorySaver(), is_async=is_async, durability=durability)
    assert len(theirs) > 2
    ours = seen_by(
        program, HoldfastSaver(f"memory://{uuid4().hex}"), is_async=is_async, durability=durability
    )
    assert ours == theirs


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_sees_the_same_on_disk(program: Program, tmp_path: Path) -> None:
    """Over a file, by default options."""
    theirs = seen_by(program, InMemorySaver(), is_async=False, durability="async")
    with HoldfastSaver(tmp_path / "s.db") as saver:
        assert seen_by(program, saver, is_async=False, durability="async") == theirs
        saver.store.close()


@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
def test_a_graph_with_a_store_sees_the_same(is_async: bool) -> None:
    """Nodes that put, get, search, list and delete items, over threads."""

    async def remembers(turns: Turns, saver: Any, store: Any) -> AsyncIterator[Any]:
        def node(state: Lines, *, store: BaseStore) -> Any:
            name = state["lines"][-1]
            store.put(("people", name), "likes", {"drink": "coffee", "rank": len(name)})
            store.put(("people", name), "gone", {"x": 1})
            store.delete(("people", name), "gone")
            found = store.search(("people",), filter={"rank": {"$gte": 3}})
            return {
                "lines": [
                    f"{item.namespace} {item.value}" for item in sorted(found, key=lambda i: i.namespace)
                ]
            }

        graph = line("node", node=node).compile(checkpointer=saver, store=store)
        for number, name in enumerate(("ada", "grace")):
            config = {"configurable": {"thread_id": str(number)}}
            yield await turns.invoke(graph, {"lines": [name]}, config)
        yield store.list_namespaces(prefix=("people",), max_depth=2)
        yield store.get(("people", "ada"), "likes").value
        yield store.get(("people", "ada"), "gone")

    def seen(saver: Any, store: Any) -> list[Any]:
        async def all_of_it() -> list[Any]:
            turns = Turns(is_async=is_async, durability="async")
            return [Observed()(one) async for one in remembers(turns, saver, store)]

        return asyncio.run(all_of_it())

    url = f"memory://{uuid4().hex}"
    assert seen(HoldfastSaver(url), HoldfastStore(url)) == seen(InMemorySaver(), InMemoryStore())
