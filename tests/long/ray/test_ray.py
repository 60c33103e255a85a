"""An agent as a Ray actor, on a cluster of simulated nodes, one of which is lost in the middle of a payment.

Ray is the real one, and so are its nodes' processes; only the machine under them is the same. What is lost is killed with
SIGKILL: the node's own processes and the actor's. Then Ray starts the actor on another node and makes its call again, and
the run goes on there. Judged by the ledger that the payments are written to, and by the journal.

Planted once, and caught here: a tool without ``verify`` (the run stops in doubt); ``pay`` as a ``read`` step (a payment is
booked twice); an actor without ``max_task_retries`` (the call fails with its node).
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.model.events import Kind

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
DEADLINE_S = 120.0
STORE_BYTES = 80 * 1024 * 1024
"""Of shared memory, for each node: the least that Ray takes."""

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's are not ours to mend


@pytest.fixture(scope="session", autouse=True)
def _ray_alone() -> Iterator[None]:
    """Everything on the loopback interface, behind a token, nothing sent anywhere; nodes that know the example.

    Ray reads these when it is imported, so that happens in the tests.
    """
    paths = [str(EXAMPLES), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory(prefix="hf-ray-", ignore_cleanup_errors=True) as place:
        os.environ.update(
            PYTHONPATH=os.pathsep.join(path for path in paths if path),
            RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # its way of saying: 127.0.0.1
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=secrets.token_hex(32),  # else it writes one into the user's home
            RAY_TMPDIR=place,
            RAY_USAGE_STATS_ENABLED="0",
        )
        sys.path.insert(0, str(EXAMPLES))
        yield


@pytest.fixture(scope="module")
def cluster(_ray_alone: None) -> Iterator[Any]:
    """A cluster whose head takes no agents; it notices within a second or two that a node is lost."""
    import ray
    from ray.cluster_utils import Cluster

    config = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_failure_threshold": 3,
    }
    head = {"include_dashboard": False, "_system_config": config, **_small()}
    made = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def nodes(cluster: Any) -> Iterator[list[Any]]:
    """Two nodes for one agent each."""
    added = [cluster.add_node(resources={"agents": 1}, **_small()) for _ in range(2)]
    yield added
    for node in added:
        if node in cluster.list_all_nodes():
            cluster.remove_node(node, allow_graceful=False)


def _small() -> dict[str, int]:
    return {"num_cpus": 1, "object_store_memory": STORE_BYTES}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that all nodes reach."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/holdfast.db"


def until(look: Callable[[], bool]) -> None:
    """Wait until that is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not look():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)


def booked(ledger: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def attempts(store: holdfast.Store) -> list[dict[str, Any]]:
    events = store.events("march") if store.runs() else []
    return [contents_of(event.body) for event in events if event.kind == Kind.ATTEMPT_STARTED]


def parent_of(pid: int) -> int:
    """The process that has started this one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("moment", ["before it is booked", "after it is booked"])
def test_a_node_is_lost_in_the_middle_of_a_payment(
    cluster: Any, nodes: list[Any], url: str, tmp_path: Path, moment: str
) -> None:
    """The actor is started on the other node, the run resumes there, and everybody is paid exactly once."""
    import ray_actor

    import ray

    ledger = tmp_path / "ledger.jsonl"
    raylets = {node.all_processes["raylet"][0].process.pid: node for node in nodes}
    agent = ray_actor.Payroll.options(resources={"agents": 1}).remote(url, str(ledger))
    result = agent.work.remote("march")
    store = holdfast.store(url)

    def is_time() -> bool:
        if moment == "after it is booked":
            return len(booked(ledger)) == 3
        return (
            bool(attempts(store)) and len(store.view("march").open_calls()) == 1 and len(booked(ledger)) == 2
        )

    until(is_time)
    pid = int(attempts(store)[0]["owner"].partition("@")[0])
    lost = raylets[parent_of(pid)]
    os.kill(pid, signal.SIGSTOP)  # a machine that is lost does not see its processes end one by one
    cluster.remove_node(lost, allow_graceful=False)
    os.kill(pid, signal.SIGKILL)

    assert ray.get(result, timeout=DEADLINE_S) == "march: 6 people paid in 2 attempt(s)"
    assert [line["person"] for line in booked(ledger)] == list(ray_actor.PEOPLE)
    assert len({line["key"] for line in booked(ledger)}) == len(ray_actor.PEOPLE)
    kinds = [event.kind for event in store.events("march")]
    assert kinds.count(Kind.ATTEMPT_CRASHED) == 1
    assert kinds.count(Kind.STEP_SETTLED) == 1, "one payment was in doubt, and settled"
    second = int(attempts(store)[1]["owner"].partition("@")[0])
    assert raylets[parent_of(second)] is not lost
    ray.kill(agent)
    store.close()


def test_a_lost_actor_is_answered_from_the_journal(cluster: Any, nodes: list[Any], tmp_path: Path) -> None:
    """Asked again, by another actor on another node, a finished run answers without paying anybody."""
    import ray_actor

    import ray

    assert len(nodes) == len(cluster.worker_nodes)
    url, ledger = f"sqlite:///{tmp_path}/holdfast.db", str(tmp_path / "ledger.jsonl")
    told = []
    for _ in range(2):
        agent = ray_actor.Payroll.options(resources={"agents": 1}).remote(url, ledger)
        told.append(ray.get(agent.work.remote("march"), timeout=DEADLINE_S))
        ray.kill(agent)
    assert told == ["march: 6 people paid in 1 attempt(s)"] * 2
    assert len(booked(Path(ledger))) == len(ray_actor.PEOPLE)


def test_the_example_runs_as_it_stands(tmp_path: Path) -> None:
    """On one machine, without arguments, with a cluster of its own."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "ray_actor.py")],
        cwd=tmp_path,
        env={**os.environ, "RAY_ADDRESS": "local"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "march: 6 people paid in 1 attempt(s)\n"), done.stderr
    assert len(booked(tmp_path / "ledger.jsonl")) == 6
    assert (tmp_path / ".holdfast" / "holdfast.db").exists()
