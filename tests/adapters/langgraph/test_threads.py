"""Threads on a store: what is kept, how, and that two writers lose nothing of each other's.

Planted once each in a copy, and caught here: a put that never asks who went on before it; one that is refused although it
was read by its id; a whole channel through the serializer as one value; the latest checkpoint by its id instead of its
place; a thread's name written as it is.
"""

import asyncio
import operator
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from pydantic import BaseModel
from tests.support.fork_server import fork_server
from tests.support.forked import Popen
from tests.support.stores import over_shared_stores

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver
from holdfast.adapters.langgraph.serde import Values
from holdfast.adapters.langgraph.thread_ids import run_of, thread_of
from holdfast.engine.threads.recent_states import Recent


class Lines(TypedDict):
    """A state that grows."""

    lines: Annotated[list[str], operator.add]


class Note(BaseModel):
    """A model of the user's."""

    text: str


def config_of(thread: str, **more: str) -> Any:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread, **more}}


def adding(saver: BaseCheckpointSaver[Any], line: str = "said") -> Any:
    """A graph whose one node adds a line."""
    builder: Any = StateGraph(Lines)
    builder.add_node("add", lambda _: {"lines": [line]})
    builder.add_edge(START, "add")
    return builder.compile(checkpointer=saver)


def new_saver(**options: Any) -> HoldfastSaver:
    """A saver on a store of its own."""
    return HoldfastSaver(f"memory://{uuid4().hex}", **options)


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "thread",
    [
        "t",
        "user@example.com",
        "org/42",
        "50%",
        "ünï 😀",
        " a ",
        "a\nb",
        "#1",
        "-x",
        "a//b",
        "ends/",
        "\ud800",
    ],
)
def test_any_thread_id_names_a_run(thread: str) -> None:
    """Escaped where a run's name cannot hold it, and read back as it was."""
    run = run_of(thread)
    assert run.startswith("langgraph/")
    assert run.count("/") == 1
    assert thread_of(run) == thread
    saver = new_saver()
    graph = adding(saver)
    graph.invoke({"lines": ["hi"]}, config_of(thread))
    assert next(saver.list(None)).config["configurable"]["thread_id"] == thread


@pytest.mark.parametrize("thread", ["", "x" * 300])
def test_a_thread_id_that_cannot_be_a_name_is_refused(thread: str) -> None:
    """Clearly, and before anything is written."""
    saver = new_saver()
    with pytest.raises(holdfast.BadName):
        adding(saver).invoke({"lines": []}, config_of(thread))
    assert saver.store.runs() == []


# -- values --------------------------------------------------------------------------------------------------------

SHAPES = [
    None,
    [1, 2.5, "x", True, None, 10**30, float("inf")],
    {"a": {"b": [1]}, "lc": "mine", "role": "user"},
    {"lc": {"lc": 1}},
    {1: "a", "b": 2},
    (1, [2, (3,)]),
    {"a", "b"},
    b"bytes",
    datetime(2026, 1, 2, tzinfo=UTC),
    Note(text="x"),
    [HumanMessage("hi", id="1"), AIMessage("", tool_calls=[{"name": "f", "args": {"n": 1}, "id": "c"}])],
    ToolMessage("42", tool_call_id="c", artifact={"rows": [1, 2]}, status="error"),
    AIMessage(
        [{"type": "text", "text": "x"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    Send("node", {"x": 1}),
]


@pytest.mark.parametrize("value", SHAPES, ids=lambda value: type(value).__name__)
def test_values_come_back_as_they_were(value: Any) -> None:
    """Through the state, and through what is pending."""
    saver = new_saver()
    config = config_of("t", checkpoint_ns="")
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"x": value, "many": [value]}
    stored = saver.put(config, checkpoint, {"source": "loop", "step": 1}, {"x": 1})
    saver.put_writes(stored, [("x", value)], "task")
    saver.session._parts.pop(Recent, None)  # as another process would find it
    found = saver.get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"x": value, "many": [value]}
    assert type(found.checkpoint["channel_values"]["x"]) is type(value)
    assert found.pending_writes == [("task", "x", value)]


def test_messages_are_plain_data_that_people_can_read() -> None:
    """With their role, so that a diff of two states tells which message came."""
    plain = Values(JsonPlusSerializer()).plain([HumanMessage("hi", id="1")])
    assert plain == [{"lc": "HumanMessage", "role": "user", "content": "hi", "id": "1"}]


def test_what_cannot_be_stored_is_refused_with_its_place() -> None:
    """A socket in the state is named, and nothing is written."""
    saver = new_saver()
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"x": [1, {"conn": object()}]}
    with pytest.raises(holdfast.NotStorable, match="conn"):
        saver.put(config_of("t"), checkpoint, {}, {})


# -- storage -------------------------------------------------------------------------------------------------------


def stored_bytes(path: Path) -> int:
    """What the database holds, without the log beside it."""
    import sqlite3

    with sqlite3.connect(path) as connection:
        return sum(
            connection.execute(f"SELECT coalesce(sum(length({column})), 0) FROM {table}").fetchone()[0]
            for table, column in (("events", "body"), ("blobs", "data"))
        )


@pytest.mark.parametrize("serde", ["open", "encrypted"])
def test_a_checkpoint_costs_what_changed(tmp_path: Path, serde: str) -> None:
    """A state of 200 kB that grows by a line writes a line; also through a serializer that never writes the same twice."""
    import os

    closed = EncryptedSerializer(_Cipher()) if serde == "encrypted" else None
    saver = HoldfastSaver(tmp_path / "s.db", serde=closed)
    graph = adding(saver, "one more line")
    lines = [os.urandom(1_000).hex() for _ in range(100)]
    graph.invoke({"lines": lines}, config_of("t"))
    before = stored_bytes(tmp_path / "s.db")
    graph.invoke({"lines": ["and one"]}, config_of("t"))
    assert stored_bytes(tmp_path / "s.db") - before < 15_000
    found = HoldfastSaver(tmp_path / "s.db", serde=closed).get_tuple(config_of("t"))
    assert found is not None
    assert found.checkpoint["channel_values"]["lines"] == [
        *lines,
        "one more line",
        "and one",
        "one more line",
    ]


class _Cipher:
    """Not a good one; but no two texts of it are alike."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """A text with a new salt."""
        import os

        salt = os.urandom(8)
        return "xor", salt + bytes(one ^ salt[at % 8] for at, one in enumerate(plaintext))

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The plain text."""
        assert ciphername == "xor"
        salt, rest = ciphertext[:8], ciphertext[8:]
        return bytes(one ^ salt[at % 8] for at, one in enumerate(rest))


def test_with_a_serializer_that_encrypts_no_value_lies_open(tmp_path: Path) -> None:
    """Neither in the state nor in the writes nor in the metadata."""
    saver = HoldfastSaver(tmp_path / "s.db", serde=EncryptedSerializer(_Cipher()))
    adding(saver, "a secret").invoke(
        {"lines": ["another secret"]}, {**config_of("t"), "metadata": {"who": "secretary"}}
    )
    saver.store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret" not in content


def test_a_thread_at_rest_is_idle_and_has_no_attempts() -> None:
    """Nothing holds it, nobody would take it for crashed, and no process has left its mark for a mere checkpoint."""
    saver = new_saver()
    adding(saver).invoke({"lines": []}, config_of("t"))
    (info,) = saver.store.runs()
    assert (info.run, info.status, info.lease.owner) == ("langgraph/t", "idle", "")
    assert {event.kind for event in saver.store.events("langgraph/t")} == {
        "run.started",
        "checkpoint",
        "mark",
    }


def test_reading_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A saver that knows the thread reads only what others have written since."""
    saver, other = (HoldfastSaver(url) for url in [f"memory://{uuid4().hex}"] * 2)
    graph = adding(saver)
    for _ in range(20):
        graph.invoke({"lines": ["x"]}, config_of("t"))
    assert other.get_tuple(config_of("t")) is not None
    read: list[int] = []
    whole = other.session.store.read_events

    def counting(*args: Any, **kwargs: Any) -> Any:
        found = whole(*args, **kwargs)
        read.append(len(found))
        return found

    monkeypatch.setattr(other.session.store, "read_events", counting)
    other.get_tuple(config_of("t"))
    assert read == []
    graph.invoke({"lines": ["x"]}, config_of("t"))
    assert sum(read) == 0, "what a saver has written itself, it need not read"
    found = other.get_tuple(config_of("t"))
    assert found is not None
    assert found.checkpoint["channel_values"]["lines"].count("x") == 21
    assert 0 < sum(read) < 10


# -- two writers ---------------------------------------------------------------------------------------------------


def test_the_second_of_two_turns_is_told(tmp_path: Path) -> None:
    """Both have read the same checkpoint; the first goes on, the second is refused, and its chain is not lost silently."""
    first, second = HoldfastSaver(tmp_path / "s.db"), HoldfastSaver(tmp_path / "s.db")
    adding(first).invoke({"lines": ["begin"]}, config_of("t"))

    def meanwhile(_: Lines) -> dict[str, list[str]]:
        with ThreadPoolExecutor(1) as elsewhere:  # a thread without context: not a graph inside of this one
            elsewhere.submit(adding(first, "first").invoke, {"lines": []}, config_of("t")).result()
        return {"lines": ["second"]}

    builder: Any = StateGraph(Lines)
    builder.add_node("add", meanwhile)
    builder.add_edge(START, "add")
    with pytest.raises(holdfast.ChainMoved, match="langgraph/t") as refused:
        builder.compile(checkpointer=second).invoke({"lines": []}, config_of("t"), durability="sync")
    assert "holdfast fork langgraph/t@#" in refused.value.hint
    assert adding(first).get_state(config_of("t")).values["lines"] == ["begin", "said", "first"]


def test_two_first_turns_do_not_make_two_threads(tmp_path: Path) -> None:
    """Whoever found the thread empty, and comes second, is told so: by a turn, and by an update."""
    saver = HoldfastSaver(tmp_path / "s.db")

    def meanwhile(_: Lines) -> dict[str, list[str]]:
        return {"lines": ["late"]}

    builder: Any = StateGraph(Lines)
    builder.add_node("add", meanwhile)
    builder.add_edge(START, "add")
    graph = builder.compile(checkpointer=saver)
    found, put = saver.get_tuple, saver.put

    def blind(config: Any) -> Any:
        return None

    graph.invoke({"lines": ["begin"]}, config_of("t"))
    saver.get_tuple = blind  # type: ignore[method-assign]
    with pytest.raises(holdfast.ChainMoved):
        graph.invoke({"lines": ["me, too"]}, config_of("t"))
    with pytest.raises(holdfast.ChainMoved):
        graph.update_state(config_of("t"), {"lines": ["and me"]})
    saver.get_tuple = found  # type: ignore[method-assign]
    assert put is not None
    assert graph.get_state(config_of("t")).values["lines"] == ["begin", "late"]


def test_what_follows_a_refused_checkpoint_is_refused_too() -> None:
    """A turn that goes on all the same, as some versions of LangGraph do, would make a chain that begins nowhere."""
    saver = new_saver()
    adding(saver).invoke({"lines": []}, config_of("t"))
    following = config_of("t", checkpoint_ns="", checkpoint_id="refused", __pregel_task_id="of a turn")
    with pytest.raises(holdfast.ChainMoved, match="refused"):
        saver.put(following, empty_checkpoint(), {"source": "loop", "step": 3}, {})


def test_going_back_on_purpose_is_no_conflict(tmp_path: Path) -> None:
    """Whoever names an older checkpoint by its id forks the thread, as in LangGraph: by a turn, and by an update."""
    saver = HoldfastSaver(tmp_path / "s.db")
    graph = adding(saver)
    graph.invoke({"lines": ["a"]}, config_of("t"))
    old = graph.get_state(config_of("t")).config
    graph.invoke({"lines": ["b"]}, config_of("t"))
    assert graph.invoke({"lines": ["c"]}, old)["lines"] == ["a", "said", "c", "said"]
    updated = graph.update_state(old, {"lines": ["d"]})
    assert graph.get_state(updated).values["lines"] == ["a", "said", "d"]
    assert graph.get_state(config_of("t")).values["lines"] == ["a", "said", "d"], (
        "the latest is what came last"
    )
    history = [tuple(state.values["lines"]) for state in graph.get_state_history(config_of("t"))]
    assert ("a", "said", "b", "said") in history
    assert ("a", "said", "c", "said") in history
    replayed = next(state for state in graph.get_state_history(config_of("t")) if state.next == ("add",))
    graph.invoke(None, replayed.config)


def test_the_latest_is_what_was_written_last() -> None:
    """By another machine, too, whose clock is behind: ids sort by clocks, the journal does not."""
    saver = new_saver()
    stored: Any = config_of("t", checkpoint_ns="")
    for number in (9, 5):
        checkpoint = empty_checkpoint()
        checkpoint["id"] = f"1f000000-0000-6000-8000-00000000000{number}"
        checkpoint["channel_values"] = {"n": number}
        stored = saver.put(stored, checkpoint, {"source": "loop", "step": number}, {})
    found = saver.get_tuple(config_of("t"))
    assert found is not None
    assert found.checkpoint["channel_values"]["n"] == 5
    before = [
        one.checkpoint["channel_values"]["n"] for one in saver.list(config_of("t"), before=found.config)
    ]
    assert before == [9]


TURNS = """
import sys
from tests.adapters.langgraph.test_threads import turns
turns(*sys.argv[1:])
"""


def turns(url: str, name: str, count: str = "8") -> None:
    """Turns of one writer, each repeated until it is not told that another was faster; a line for each."""
    graph = adding(HoldfastSaver(url), f"{name} answered")
    for number in range(int(count)):
        while True:
            try:
                graph.invoke({"lines": [f"{name} {number}"]}, config_of("t"))
                break
            except holdfast.ChainMoved:
                continue


@over_shared_stores
def test_two_processes_on_one_thread_lose_nothing(shared_url: str) -> None:
    """Every turn that came to its end is in the thread, and there is one chain from its beginning to its end."""
    fork_server().load("langgraph.graph", "holdfast.adapters.langgraph")
    writers = [
        Popen([sys.executable, "-c", TURNS, shared_url, name, "5"], stdout=PIPE, stderr=PIPE, text=True)
        for name in ("one", "two")
    ]
    for writer in writers:
        _, told = writer.communicate(timeout=120)
        assert writer.returncode == 0, told
    saver = HoldfastSaver(shared_url)
    check_chain(saver, {f"{name} {number}" for name in ("one", "two") for number in range(5)})


def check_chain(saver: HoldfastSaver, wanted: set[str]) -> None:
    """The latest state holds all of these, and every checkpoint that was taken is one of its ancestors: no chain ends elsewhere.

    A turn is several checkpoints: of one that was refused midway, and made again, the line may stand there twice.
    """
    found = saver.get_tuple(config_of("t"))
    assert found is not None
    assert wanted <= set(found.checkpoint["channel_values"]["lines"])
    with saver.run("t").reading() as chains:
        latest = chains.find("", None)
        assert latest is not None
        assert {link.id for link in chains.ancestors(latest)} | {latest.id} == {
            link.id for link in chains.links()
        }
        assert len([*chains.links()]) >= 3 * len(wanted) - 2


def test_many_threads_of_a_process_on_one_thread_lose_nothing(tmp_path: Path) -> None:
    """The same, through one saver."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: turns(url, f"w{n}", "4"), range(4)))
    check_chain(HoldfastSaver(url), {f"w{writer} {number}" for writer in range(4) for number in range(4)})


def test_many_tasks_of_a_loop_on_one_thread_lose_nothing(tmp_path: Path) -> None:
    """The same, awaiting."""
    saver = HoldfastSaver(tmp_path / "s.db")

    async def turn(name: str) -> None:
        graph = adding(saver, f"{name} answered")
        for number in range(3):
            while True:
                try:
                    await graph.ainvoke({"lines": [f"{name} {number}"]}, config_of("t"))
                    break
                except holdfast.ChainMoved:
                    continue

    async def all_of_them() -> None:
        await asyncio.gather(*(turn(f"w{n}") for n in range(3)))

    asyncio.run(all_of_them())
    check_chain(saver, {f"w{writer} {number}" for writer in range(3) for number in range(3)})


# -- the rest ------------------------------------------------------------------------------------------------------


def test_it_opens_like_other_savers(tmp_path: Path) -> None:
    """With ``with``, ``async with`` and ``from_conn_string``."""
    url = f"sqlite:///{tmp_path / 's.db'}"
    with HoldfastSaver(url) as saver:
        adding(saver).invoke({"lines": ["a"]}, config_of("t"))
    with HoldfastSaver.from_conn_string(url) as saver:
        saver.setup()
        assert adding(saver).get_state(config_of("t")).values["lines"] == ["a", "said"]

    async def awaiting() -> None:
        async with HoldfastSaver(url) as saver:
            assert (await adding(saver).ainvoke({"lines": ["b"]}, config_of("t")))["lines"][-2:] == [
                "b",
                "said",
            ]

    asyncio.run(awaiting())


def test_a_cancelled_thread_takes_no_more() -> None:
    """As any run."""
    saver = new_saver()
    adding(saver).invoke({"lines": []}, config_of("t"))
    saver.store.cancel("langgraph/t")
    with pytest.raises(holdfast.RunCancelled):
        adding(saver).invoke({"lines": []}, config_of("t"))
