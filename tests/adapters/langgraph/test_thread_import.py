"""Threads of LangGraph's own savers in a Holdfast store: all of them, the same, once, and they go on."""

import json
import operator
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph, add_messages
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel
from tests.adapters.langgraph.test_threads import _Cipher, adding, config_of
from tests.support.fork_server import fork_server
from tests.support.forked import run as run_process

import holdfast
from holdfast.adapters.langgraph import HoldfastSaver, import_threads
from holdfast.cli.app import app

THREADS = ("ada", "user@example.com", "grace hopper")


class Origin(NamedTuple):
    """A database of one of LangGraph's savers."""

    url: str
    open: Any
    """Its saver, as a context manager."""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def origin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Origin]:
    """An empty one of each kind."""
    if request.param == "sqlite":
        path = tmp_path / "checkpoints.db"
        yield Origin(f"sqlite:///{path}", lambda: SqliteSaver.from_conn_string(str(path)))
        return
    server = request.getfixturevalue("postgres_server")
    schema = f"langgraph_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        url = f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{schema}"

        @contextmanager
        def opened() -> Iterator[Any]:
            with PostgresSaver.from_conn_string(url) as saver:
                saver.setup()
                yield saver

        yield Origin(url, opened)
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


class Talk(TypedDict):
    """A state of many kinds of values."""

    messages: Annotated[list[AnyMessage], add_messages]
    seen: Annotated[list[Any], operator.add]


def talking(saver: Any) -> Any:
    """A graph with a subgraph that asks, and tasks that were sent."""

    def ask(_: Talk) -> Any:
        return {"messages": [AIMessage(f"you said {interrupt('what?')}", id=f"a{len(_['messages'])}")]}

    inner: Any = StateGraph(Talk)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    builder: Any = StateGraph(Talk)
    builder.add_node("spread", lambda _: {"seen": [{"n": (1, 2), "nan": 0.5}]})
    builder.add_node("work", lambda given: {"seen": [given]})
    builder.add_node("talk", inner.compile())
    builder.add_edge(START, "spread")
    builder.add_conditional_edges("spread", lambda _: [Send("work", n) for n in range(3)])
    builder.add_edge("work", "talk")
    return builder.compile(checkpointer=saver)


def filled(origin: Origin) -> dict[str, Any]:
    """Threads of several turns, each stopped at a question; what the next answer would give in each."""
    ends = {}
    with origin.open() as saver:
        graph = talking(saver)
        for thread in THREADS:
            for turn in range(2):
                config: Any = {**config_of(thread), "metadata": {"turn": turn}}
                graph.invoke({"messages": [HumanMessage(f"hi {turn}", id=f"h{turn}")], "seen": []}, config)
                graph.invoke(Command(resume="yes"), config)
            graph.invoke({"messages": [HumanMessage("last", id="h9")], "seen": []}, config_of(thread))
            history = [*graph.get_state_history(config_of(thread))]
            graph.update_state(history[3].config, {"seen": ["by hand"]})
            graph.invoke(None, history[0].config)
            ends[thread] = graph.get_state(config_of(thread)).values
    return ends


def facts_of(saver: Any, thread: str) -> list[Any]:
    """Everything that a saver knows of a thread, oldest id first."""
    found = sorted(saver.list(config_of(thread)), key=lambda one: (one.checkpoint["id"], str(one.config)))
    return [
        (
            dict(one.config["configurable"]),
            one.checkpoint,
            one.metadata,
            one.parent_config,
            one.pending_writes,
        )
        for one in found
    ]


def check_same(origin: Origin, store: str) -> None:
    """Each thread is the same in both, and goes on in ours as it does in theirs."""
    ours = HoldfastSaver(store)
    with origin.open() as theirs:
        for thread in THREADS:
            assert facts_of(ours, thread) == facts_of(theirs, thread)
            answered = [
                talking(saver).invoke(Command(resume="go on"), config_of(thread)) for saver in (ours, theirs)
            ]
            assert answered[0] == answered[1]
            assert answered[0]["messages"][-1].content == "you said go on"
            states = [
                [state.values for state in talking(saver).get_state_history(config_of(thread))]
                for saver in (ours, theirs)
            ]
            assert states[0] == states[1]


def test_threads_come_over_and_go_on(origin: Origin, tmp_path: Path) -> None:
    """All checkpoints of all namespaces, metadata and pending writes; a graph continues them as it would have there."""
    filled(origin)
    store = str(tmp_path / "h.db")
    report = import_threads(origin.url, store)
    assert [(one.thread, one.outcome) for one in report.threads] == [
        (name, "imported") for name in sorted(THREADS)
    ]
    assert all(one.compared == one.checkpoints > 10 for one in report.threads)
    assert all(one.writes > 10 for one in report.threads)
    check_same(origin, store)
    holdfast.store(store).close()


def test_importing_again_writes_nothing(origin: Origin, tmp_path: Path) -> None:
    """Not even into the journal; what came meanwhile is added."""
    filled(origin)
    store = holdfast.store(tmp_path / "h.db")
    import_threads(origin.url, store)
    heads = {info.run: info.head for info in store.runs()}
    again = import_threads(origin.url, store)
    assert {one.outcome for one in again.threads} == {"there"}
    assert {info.run: info.head for info in store.runs()} == heads
    with origin.open() as saver:
        talking(saver).invoke(Command(resume="more"), config_of("ada"))
    third = import_threads(origin.url, store)
    assert {one.thread: one.outcome for one in third.threads}["ada"] == "imported"
    assert [one.outcome for one in third.threads].count("there") == len(THREADS) - 1
    with origin.open() as saver:
        assert facts_of(HoldfastSaver(store), "ada") == facts_of(saver, "ada")
    store.close()


def test_a_thread_that_went_on_in_both_is_left_as_it_is(tmp_path: Path) -> None:
    """Its next turn could follow only one of them; the other threads are imported."""
    path = tmp_path / "c.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        adding(saver).invoke({"lines": ["begin"]}, config_of("t"))
        store = holdfast.store(tmp_path / "h.db")
        import_threads(f"sqlite:///{path}", store)
        adding(HoldfastSaver(store), "here").invoke({"lines": []}, config_of("t"))
        assert import_threads(f"sqlite:///{path}", store).threads[0].outcome == "there", "only ours went on"
        adding(saver, "there").invoke({"lines": []}, config_of("t"))
        adding(saver).invoke({"lines": ["new"]}, config_of("u"))
    report = import_threads(f"sqlite:///{path}", store)
    assert [(one.thread, one.outcome) for one in report.threads] == [("t", "refused"), ("u", "imported")]
    assert "gone on in both" in report.threads[0].why
    assert adding(HoldfastSaver(store)).get_state(config_of("t")).values["lines"] == ["begin", "said", "here"]
    store.close()


KILLED = """
import os, signal, sys
from holdfast.adapters.langgraph import import_threads

def tell(now):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

left = [int(sys.argv[3])]
import_threads(sys.argv[1], sys.argv[2], tell=tell)
"""


@pytest.mark.parametrize("at", [1, 2, 17, 60])
def test_killed_in_the_middle_and_repeated(tmp_path: Path, at: int) -> None:
    """The second import continues, and the threads are the same as without the kill."""
    path = tmp_path / "checkpoints.db"
    origin = Origin(f"sqlite:///{path}", lambda: SqliteSaver.from_conn_string(str(path)))
    filled(origin)
    store = str(tmp_path / "h.db")
    fork_server().load("holdfast.adapters.langgraph", "langgraph.graph", "psycopg")
    killed = run_process([sys.executable, "-c", KILLED, origin.url, store, str(at)], check=False)
    assert killed.returncode == -9
    report = import_threads(origin.url, store)
    assert {one.outcome for one in report.threads} <= {"imported", "there"}
    assert (
        sum(one.checkpoints for one in report.threads) < sum(one.compared for one in report.threads)
        or at <= 2
    )
    check_same(origin, store)
    holdfast.store(store).close()


def test_what_is_read_back_differently_is_corrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison looks at what is stored: a state that comes back otherwise is not passed in silence."""
    from holdfast.engine.threads.chains import ChainedRun

    path = tmp_path / "c.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        adding(saver).invoke({"lines": ["begin"]}, config_of("t"))
    read = ChainedRun.state
    monkeypatch.setattr(ChainedRun, "state", lambda run, link: {**read(run, link), "lines": ["other"]})
    with pytest.raises(holdfast.Corrupt, match=r"the state of checkpoint .* is not what was imported"):
        import_threads(f"sqlite:///{path}", f"memory://{uuid4().hex}")


# -- values --------------------------------------------------------------------------------------------------------


def test_classes_of_the_user_are_not_needed(tmp_path: Path) -> None:
    """A thread whose classes cannot be imported here comes over unchanged, and no module is imported for it."""
    module = ModuleType("gone_later")
    exec("from pydantic import BaseModel\nclass Note(BaseModel):\n    text: str\n", module.__dict__)
    sys.modules["gone_later"] = module
    note: BaseModel = module.Note(text="kept")
    path = tmp_path / "c.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        adding(saver, note).invoke({"lines": [note, {"in": [note]}, "x"]}, config_of("t"))  # type: ignore[arg-type]
        del sys.modules["gone_later"]
        url = f"memory://{uuid4().hex}"
        assert import_threads(f"sqlite:///{path}", url).threads[0].outcome == "imported"
        assert "gone_later" not in sys.modules
        sys.modules["gone_later"] = module
        try:
            assert facts_of(HoldfastSaver(url), "t") == facts_of(saver, "t")
            ends = adding(HoldfastSaver(url), note).invoke({"lines": []}, config_of("t"))["lines"]  # type: ignore[arg-type]
            assert ends == [note, {"in": [note]}, "x", note, note]
        finally:
            del sys.modules["gone_later"]


def test_values_of_another_serializer_need_it(tmp_path: Path) -> None:
    """Without it the thread is refused, with the function that takes it; with it they stay encrypted."""
    path, serde = tmp_path / "c.db", EncryptedSerializer(_Cipher())
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection, serde=serde)
        adding(saver).invoke({"lines": ["a secret"]}, config_of("t"))
        url = f"sqlite:///{tmp_path / 'h.db'}"
        (refused,) = import_threads(f"sqlite:///{path}", url).threads
        assert refused.outcome == "refused"
        assert "cannot be read" in refused.why
        (made,) = import_threads(f"sqlite:///{path}", url, serde=serde).threads
        assert made.outcome == "imported"
        ours = HoldfastSaver(url, serde=serde)
        assert adding(ours).invoke({"lines": []}, config_of("t"))["lines"] == ["a secret", "said", "said"]
    ours.store.close()
    assert b"a secret" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())


def test_a_database_of_an_older_version_is_read(tmp_path: Path) -> None:
    """One without the column of task paths; and it is not changed."""
    path = tmp_path / "c.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        adding(saver).invoke({"lines": ["begin"]}, config_of("t"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE writes DROP COLUMN task_path")
        connection.execute("PRAGMA journal_mode=DELETE")
    before = path.read_bytes()
    url = f"memory://{uuid4().hex}"
    assert import_threads(str(path), url).threads[0].outcome == "imported"
    assert path.read_bytes() == before
    assert adding(HoldfastSaver(url)).get_state(config_of("t")).values["lines"] == ["begin", "said"]


# -- the command ---------------------------------------------------------------------------------------------------


def typed(*words: str) -> Any:
    """What a command prints and returns."""
    return CliRunner().invoke(app, [*words])


def test_the_command_shows_each_thread(tmp_path: Path) -> None:
    """A row for each, the sum, and what to type next; as JSON, too."""
    path = tmp_path / "c.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for thread in THREADS:
            adding(saver).invoke({"lines": ["begin"]}, config_of(thread))
    url, store = f"sqlite:///{path}", str(tmp_path / "h.db")
    some = typed("import", "--from-langgraph", url, "--store", store, "--thread", "ada")
    assert some.exit_code == 0, some.output
    assert "1 thread: 3 checkpoints and 3 pending writes" in some.output
    made = typed("import", "--from-langgraph", url, "--store", store)
    assert made.exit_code == 0
    assert "already there" in made.output
    assert "2 threads: 6 checkpoints and 6 pending writes" in made.output
    assert "9 checkpoints read back from there and compared" in made.output
    assert "holdfast show langgraph/ada" in made.output
    found = json.loads(typed("import", "--from-langgraph", url, "--store", store, "--json").stdout)
    assert {one["outcome"] for one in found["threads"]} == {"there"}
    assert {*found} == {"source", "target", "threads"}
    holdfast.store(store).close()


@pytest.mark.parametrize(
    ("source", "says", "hint"),
    [
        ("sqlite:///{here}/nope.db", "is no file", "sqlite:///path"),
        ("sqlite:///{here}/text.db", "not a database", "sqlite:///path"),
        ("sqlite:///{here}/other.db", "no checkpoints of a LangGraph saver", "SqliteSaver"),
        ("mysql://me:secret@db/x", "is no database of LangGraph", "postgresql://"),
        ("postgresql://me:secret@127.0.0.1:1/x", "cannot be opened", "postgresql://"),
    ],
)
def test_a_bad_source_is_refused(tmp_path: Path, source: str, says: str, hint: str) -> None:
    """With the reason and what to type; without a new store, and without the password."""
    (tmp_path / "text.db").write_text("not a database" * 100)
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE x (y)")
    source = source.format(here=tmp_path)
    with pytest.raises(holdfast.ThreadsUnreadable, match=says) as refused:
        import_threads(source, f"memory://{uuid4().hex}")
    assert hint in refused.value.hint
    made = typed("import", "--from-langgraph", source, "--store", str(tmp_path / "h.db"))
    assert made.exit_code == 1
    assert says in made.output
    assert "hint:" in made.output
    assert "secret" not in made.output
    assert not (tmp_path / "h.db").exists()


def test_the_store_itself_is_no_source(tmp_path: Path) -> None:
    """It is refused before the file is opened a second time."""
    store = holdfast.store(tmp_path / "h.db")
    with pytest.raises(holdfast.ThreadsUnreadable, match="is the store itself"):
        import_threads(str(tmp_path / "h.db"), store)
    store.close()


def test_misuse_of_the_command(tmp_path: Path) -> None:
    """A file and a database at once, a thread without a database, neither, or a thread that is not there."""
    with SqliteSaver.from_conn_string(str(tmp_path / "c.db")) as saver:
        adding(saver).invoke({"lines": []}, config_of("t"))
    url = f"sqlite:///{tmp_path / 'c.db'}"
    store = ("--store", str(tmp_path / "h.db"))
    assert typed("import", "x.holdfast", "--from-langgraph", url, *store).exit_code == 2
    assert typed("import", "x.holdfast", "--thread", "t", *store).exit_code == 2
    assert typed("import", *store).exit_code == 2
    unknown = typed("import", "--from-langgraph", url, "--thread", "u", *store)
    assert unknown.exit_code == 1
    assert "no thread 'u'" in unknown.output
    assert not (tmp_path / "h.db").exists()
