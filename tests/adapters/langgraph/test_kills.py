"""A graph killed with SIGKILL before and after every port call and inside each of three tools, then told to go on.

Each effect is made once, and the thread ends as the undisturbed one's. Planted once each in a copy, and caught here: tools that
do not wait for the checkpoint they run from (a killed one makes all three again, under a new task); a call that is looked for
under another key by the next process; the lease of a killed process that the next checkpoint does not take over.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from tests.adapters.langgraph.programs.agent import CONFIG, THREE, graph_of
from tests.support.sampling import OFTEN

from holdfast.testing.crash_matrix import Case, CrashMatrix

AGENT = Path(__file__).parent / "programs" / "agent.py"
PRELOAD = ["langgraph.graph", "langgraph.prebuilt", "holdfast.adapters.langgraph"]


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrashMatrix]:
    """One for the module: its children fork from a process that has imported LangGraph once."""
    with CrashMatrix(tmp_path_factory.mktemp("matrix")) as matrix:
        yield matrix


def check(case: Case) -> None:
    """Every effect once, the same result, and a thread that nobody would take for a crashed run."""
    ledger = Counter((case.directory / "ledger").read_text().split("\n")[:-1])
    assert ledger == {f"{name} {n}": 1 for n, name in enumerate(THREE)}
    assert (case.directory / "result").read_text() == (case.calm / "result").read_text()
    (info,) = case.store.runs()
    assert (info.run, info.status) == ("langgraph/t", "idle")


@pytest.mark.parametrize(("mode", "often"), [("sync", 1), ("async", 2), ("stream", 4), ("ask", 4)])
def test_killed_around_every_port_call(matrix: CrashMatrix, mode: str, often: int) -> None:
    """Wherever it was, ``invoke(None, config)`` goes on: sync, async, streaming, and behind an interrupt."""
    every = 1 if OFTEN == 1 else OFTEN * often
    report = matrix.walk(AGENT, mode, check=check, start="fork", preload=PRELOAD, every=every)
    assert report.calls >= 30


@pytest.mark.parametrize("mode", ["sync", "async", "ask"])
@pytest.mark.parametrize("name", THREE)
def test_killed_inside_a_tool(matrix: CrashMatrix, mode: str, name: str) -> None:
    """Behind its effect and before anybody knew: what the other two did is not done again, and its own is found."""
    case = matrix.case(AGENT, mode, name, start="fork", preload=PRELOAD)
    codes = [case.run().code for _ in range(2)]
    assert codes == [-9, 0], case.exits[-1].output
    ledger = Counter((case.directory / "ledger").read_text().split("\n")[:-1])
    assert ledger == {f"{one} {n}": 1 for n, one in enumerate(THREE)}
    assert (case.directory / "result").read_text().splitlines()[-1] == "search 0; pay 1; mail 2"
    case.close()


def test_a_thread_whose_holder_died_takes_a_checkpoint_at_once(
    matrix: CrashMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed inside a tool, the process still holds the run: whoever comes with something else is not kept waiting."""
    case = matrix.case(AGENT, "sync", "pay", start="fork", preload=PRELOAD)
    assert case.run().code == -9
    assert case.store.get("langgraph/t").status == "crashed"
    monkeypatch.setenv("HOLDFAST_URL", case.url)
    graph = graph_of("sync")
    graph.update_state(CONFIG, {"messages": [AIMessage("never mind", id="answer")]}, as_node="model")
    assert graph.get_state(CONFIG).values["messages"][-1].content == "never mind"
    assert not case.store.get("langgraph/t").lease.owner
    case.close()
