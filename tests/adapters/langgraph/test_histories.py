"""Whole threads: branched, moved back, pruned, cut down and deleted, by LangGraph's words and by Holdfast's own.

Planted once each in a copy, and caught here: a prune that keeps the latest checkpoint of one namespace only; one that lets a
delta channel's base go, or the writes since; one that asks a fork nothing; what was deleted and is still listed.
"""

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from click.testing import CliRunner
from langchain_core.messages import AIMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver
from holdfast.cli.app import app
from holdfast.engine.threads.recent_states import Recent
from holdfast.model.retention import Keep, Retention

NOTHING = Retention(checkpoints=Keep(last=0))
"""Keep nothing that may go."""


def joined(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    """All lines, in order."""
    return [*state, *(line for write in writes for line in write)]


class Deltas(TypedDict):
    """A channel that is rebuilt from what was written since its last snapshot, beside an ordinary one."""

    lines: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=3)]
    count: Annotated[int, operator.add]


def config_of(thread: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread}}


def deltas(saver: HoldfastSaver) -> Any:
    """A graph whose two nodes, side by side, add a line each."""
    builder: Any = StateGraph(Deltas)
    builder.add_node("a", lambda s: {"lines": [f"a{s['count']}"], "count": 1})
    builder.add_node("b", lambda s: {"lines": [f"b{s['count']}"], "count": 1})
    builder.add_edge(START, "a")
    builder.add_edge(START, "b")
    return builder.compile(checkpointer=saver)


def nested(saver: HoldfastSaver) -> Any:
    """A graph with another inside, which waits for an answer: two namespaces with unfinished work."""

    def inside(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"inside: {interrupt('go on?')}")]}

    below: Any = StateGraph(MessagesState)
    below.add_node("before", lambda _: {"messages": [AIMessage("before")]})
    below.add_node("inside", inside)
    below.add_edge(START, "before")
    below.add_edge("before", "inside")
    above: Any = StateGraph(MessagesState)
    above.add_node("below", below.compile())
    above.add_edge(START, "below")
    return above.compile(checkpointer=saver)


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> HoldfastSaver:
    """A saver on a new store."""
    url = f"memory://{uuid4().hex}" if request.param == "memory" else f"sqlite:///{tmp_path / 's.db'}"
    return HoldfastSaver(url)


def fresh(saver: HoldfastSaver) -> HoldfastSaver:
    """A saver that knows nothing yet."""
    saver.session._parts.pop(Recent, None)
    return HoldfastSaver(saver.store)


# -- pruning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("how", ["saver", "holdfast"])
def test_a_pruned_thread_with_delta_channels_goes_on(saver: HoldfastSaver, turns: int, how: str) -> None:
    """Wherever its last snapshot lies: the state is the same afterwards, and so is what the next turn makes of it."""
    graph = deltas(saver)
    for turn in range(turns):
        for thread in ("t", "untouched"):
            graph.invoke({"lines": [f"turn {turn}"], "count": 1}, config_of(thread))
    before = graph.get_state(config_of("t")).values
    if how == "saver":
        saver.prune(["t"])
    else:
        saver.store.prune("langgraph/t", policy=NOTHING)
    assert deltas(fresh(saver)).get_state(config_of("t")).values == before
    graph = deltas(fresh(saver))
    for _ in range(4):
        after = [graph.invoke({"lines": ["again"], "count": 1}, config_of(t)) for t in ("t", "untouched")]
        assert after[0] == after[1]
        saver.prune(["t"])


def test_a_pruned_thread_keeps_every_namespace(saver: HoldfastSaver) -> None:
    """A graph inside a graph waits for an answer: after a prune by either way it is given, and the graph goes on."""
    from langgraph.types import Command

    for thread in ("saver", "holdfast"):
        nested(saver).invoke({"messages": []}, config_of(thread))
    saver.prune(["saver"])
    saver.store.prune(policy=NOTHING)
    for thread in ("saver", "holdfast"):
        end = nested(fresh(saver)).invoke(Command(resume="yes"), config_of(thread))
        assert [message.content for message in end["messages"]] == ["before", "inside: yes"]


def test_pruning_frees_what_no_checkpoint_needs(tmp_path: Path) -> None:
    """The states of superseded checkpoints, and what was pending with them."""
    saver = HoldfastSaver(tmp_path / "s.db")
    builder: Any = StateGraph(MessagesState)
    builder.add_node(
        "say", lambda _: {"messages": [AIMessage(uuid4().hex * 100, id="same")]}
    )  # replaced each time
    builder.add_edge(START, "say")
    graph = builder.compile(checkpointer=saver)
    for _ in range(20):
        graph.invoke({"messages": []}, config_of("t"))
    report = saver.store.prune("langgraph/t", policy=NOTHING)
    assert report.bytes_after < report.bytes_before / 3
    assert len(list(saver.list(config_of("t")))) == 1
    assert saver.store.prune("langgraph/t", policy=NOTHING).bytes_after == report.bytes_after


def test_pruning_a_thread_asks_its_branches(saver: HoldfastSaver) -> None:
    """What a branch builds on stays, also for one that went on from an older checkpoint."""
    graph = deltas(saver)
    for turn in range(5):
        graph.invoke({"lines": [f"turn {turn}"], "count": 1}, config_of("t"))
    history = list(graph.get_state_history(config_of("t")))
    values = {}
    for name, state in (("late", history[0]), ("early", history[-4])):
        saver.branch(state.config, name)
        values[name] = graph.invoke({"lines": [name], "count": 1}, config_of(name))
    graph.invoke({"lines": ["on"], "count": 1}, config_of("t"))
    saver.prune(["t", "late"])
    for name, wanted in values.items():
        assert deltas(fresh(saver)).get_state(config_of(name)).values == wanted


def test_what_a_branch_leans_on_stays_wherever_it_lies(saver: HoldfastSaver) -> None:
    """A branch goes back to before it began: the checkpoint that its delta channel builds on is in the other thread."""
    place: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    stored = []
    for value in ("first", "second", "third"):
        whole = {**empty_checkpoint(), "channel_values": {"lines": [value]}}
        place = saver.put(place, whole, {"source": "loop", "step": 1}, {})  # type: ignore[arg-type]
        saver.put_writes(place, [("lines", [f"after {value}"])], "task")
        stored.append(place)
    saver.copy_thread("t", "branch")
    first = {"configurable": {**stored[0]["configurable"], "thread_id": "branch"}}
    counters: Any = {"source": "loop", "step": 2, "counters_since_delta_snapshot": {"lines": (1, 1)}}
    back = saver.put(first, empty_checkpoint(), counters, {})  # type: ignore[arg-type]
    saver.prune(["t", "branch"])
    history = fresh(saver).get_delta_channel_history(config=back, channels=["lines"])["lines"]
    assert history == {"writes": [("task", "lines", ["after first"])], "seed": ["first"]}


# -- branches ------------------------------------------------------------------------------------------------------


def test_a_branch_goes_on_beside_its_thread(saver: HoldfastSaver) -> None:
    """From the latest checkpoint or from any; one row is written, and neither sees what the other does from there."""
    graph = deltas(saver)
    graph.invoke({"lines": ["first"], "count": 1}, config_of("t"))
    first = graph.get_state(config_of("t"))
    graph.invoke({"lines": ["second"], "count": 1}, config_of("t"))
    heads = {info.run: info.head for info in saver.store.runs()}
    for name, config in (("from first", first.config), ("from latest", config_of("t"))):
        assert saver.branch(config, name) == config_of(name)
    assert graph.get_state(config_of("from first")).values == first.values
    graph.invoke({"lines": ["elsewhere"], "count": 1}, config_of("from first"))
    assert "second" not in graph.get_state(config_of("from first")).values["lines"]
    assert "elsewhere" not in graph.get_state(config_of("t")).values["lines"]
    assert {info.run: info.head for info in saver.store.runs()}["langgraph/t"] == heads["langgraph/t"]
    with pytest.raises(holdfast.RunExists):
        saver.branch(config_of("t"), "from first")
    with pytest.raises(holdfast.UnknownPoint):
        saver.branch(config_of("nobody"), "x")


def test_the_command_line_knows_threads(tmp_path: Path) -> None:
    """fork, rewind, diff and export are the ordinary ones, and LangGraph goes on with what they leave."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    graph = deltas(HoldfastSaver(url))
    for turn in range(2):
        graph.invoke({"lines": [f"turn {turn}"], "count": 1}, config_of("t"))
    history = list(graph.get_state_history(config_of("t")))

    def holdfast_says(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--store", url])
        assert result.exit_code == 0, result.output
        return result.output

    points = len(history)
    assert "langgraph/other" in holdfast_says("fork", f"langgraph/t@{points - 1}", "--as", "langgraph/other")
    assert next(graph.get_state_history(config_of("other"))).values == history[1].values
    assert graph.invoke({"lines": ["x"], "count": 1}, config_of("other"))["lines"][-3:-2] == ["x"]
    assert "count  3 → 6" in holdfast_says("diff", "langgraph/t@3", "langgraph/t")
    assert "idle" in holdfast_says("runs")
    assert "loop 1" in holdfast_says("log", "langgraph/t")
    assert "input -1" in holdfast_says("checkpoints", "langgraph/t")
    holdfast_says("rewind", "langgraph/t@3")
    assert next(graph.get_state_history(config_of("t"))).values == history[-3].values
    assert graph.get_state(config_of("t~1")).values == history[0].values
    holdfast_says("export", "langgraph/t", "-o", str(tmp_path / "t.holdfast"))
    other = HoldfastSaver(f"sqlite:///{tmp_path / 'other.db'}")
    other.store.import_(tmp_path / "t.holdfast", as_="langgraph/brought")
    assert next(deltas(other).get_state_history(config_of("brought"))).values == history[-3].values
    assert deltas(other).invoke({"lines": ["there"], "count": 1}, config_of("brought"))["lines"][-3:-2] == [
        "there"
    ]


# -- deleting ------------------------------------------------------------------------------------------------------


def test_a_deleted_thread_leaves_its_branches_whole(saver: HoldfastSaver) -> None:
    """They get what they borrow; a new thread of that name begins at its beginning."""
    graph = deltas(saver)
    for turn in range(4):
        graph.invoke({"lines": [f"turn {turn}"], "count": 1}, config_of("t"))
    saver.copy_thread("t", "copy")
    wanted = graph.get_state(config_of("t")).values
    saver.delete_thread("t")
    assert graph.get_state(config_of("t")).values == {}
    assert [info.run for info in saver.store.runs()] == ["langgraph/copy"]
    assert deltas(fresh(saver)).get_state(config_of("copy")).values == wanted
    assert graph.invoke({"lines": ["new"], "count": 1}, config_of("t"))["lines"][0] == "new"
    graph.invoke({"lines": ["on"], "count": 1}, config_of("copy"))
    saver.delete_thread("copy")
    saver.delete_thread("t")
    saver.delete_thread("never was")
    assert saver.store.runs() == []


def test_a_deleted_thread_leaves_no_states_behind(tmp_path: Path) -> None:
    """The blobs that only it needed are gone."""
    saver = HoldfastSaver(tmp_path / "s.db")
    for thread in ("t", "u"):
        deltas(saver).invoke({"lines": ["x" * 5_000], "count": 1}, config_of(thread))
    before = len(saver.session.store.scan_blobs(limit=100))
    saver.delete_thread("t")
    assert 0 < len(saver.session.store.scan_blobs(limit=100)) < before
    assert deltas(fresh(saver)).get_state(config_of("u")).values["lines"][0] == "x" * 5_000


def test_checkpoints_deleted_by_their_run_do_not_take_others_along(saver: HoldfastSaver) -> None:
    """What the rest builds on stays, and is not seen any more."""
    graph = deltas(saver)
    runs = [uuid4() for _ in range(4)]
    for run in runs:
        graph.invoke({"lines": [str(run)], "count": 1}, {**config_of("t"), "metadata": {"run_id": str(run)}})
    wanted = graph.get_state(config_of("t")).values
    saver.delete_for_runs([str(run) for run in runs[:-1]])
    left = {one.metadata.get("run_id") for one in saver.list(config_of("t"))}
    assert left == {str(runs[-1])}
    assert deltas(fresh(saver)).get_state(config_of("t")).values == wanted
    assert (
        deltas(fresh(saver)).invoke({"lines": ["on"], "count": 1}, config_of("t"))["lines"][
            : len(wanted["lines"])
        ]
        == wanted["lines"]
    )
