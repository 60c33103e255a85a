"""One run, many processes: exactly one works.

Planted once in a copy, and caught here: a takeover that does not compare fence and beat (several hold a run after a
kill); liveness judged by whether the pid exists (a zombie looks alive, and a process in another namespace dead).
"""

import contextvars
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.stores import over_shared_stores

import holdfast

if TYPE_CHECKING:
    from tests.race.conftest import Start, Worker

pytestmark = over_shared_stores

N = 8
Ledger = Callable[[], list[str]]


def contend(workers: "list[Worker]") -> "tuple[Worker, list[dict[str, Any]]]":
    """All start the run of this round at once; the one that got it, and what the others were told."""
    for worker in workers:
        worker.hear("ready")
    for worker in workers:
        worker.tell("go")
    heard = {worker: worker.hear("won", "refused") for worker in workers}
    winners = [worker for worker, told in heard.items() if told["told"] == "won"]
    assert len(winners) == 1, f"{len(winners)} processes hold one run"
    return winners[0], [told for told in heard.values() if told["told"] == "refused"]


def pay(worker: "Worker") -> None:
    worker.hear("inside")
    worker.tell("pay")
    worker.hear("paid")


def test_many_start_one_run(start: "Start", url: str, ledger: Ledger) -> None:
    """Eight processes start the same run at once: one works, seven are told who does, where and since when.

    In the odd rounds a killed process still holds the run, and all eight try to take it over.
    """
    rounds = 6
    start("die", url, *(f"run-{number}" for number in range(1, rounds, 2))).wait()
    workers = [start("contend", url, str(rounds)) for _ in range(N)]
    for number in range(rounds):
        winner, refused = contend(workers)
        assert len(refused) == N - 1
        for told in refused:
            assert told["owner"] == f"process {winner.pid} on {os.uname().nodename}"
            assert told["since"] in told["text"]
        assert len(ledger()) == number
        pay(winner)
    assert all(worker.wait() == 0 for worker in workers)
    assert len(ledger()) == rounds


def test_many_create_one_store(start: "Start", url: str, ledger: Ledger, store: holdfast.Store) -> None:
    """Eight processes find no database: one is made, and one of them works in it."""
    workers = [start("contend", url, "1") for _ in range(N)]
    winner, refused = contend(workers)
    assert len(refused) == N - 1
    pay(winner)
    assert ledger() == [str(winner.pid)]
    assert [worker.wait() for worker in workers] == [0] * N
    assert store.get("run-0").status == "finished"


def test_two_attempts_in_one_process(url: str, store: holdfast.Store) -> None:
    """A second attempt in the same process is refused as well, and says that it is this very process."""
    with holdfast.run("run", store=url) as run:
        elsewhere = contextvars.Context()  # without the run's own context, in which it would be a child
        with pytest.raises(holdfast.RunHeld) as refused:
            elsewhere.run(holdfast.run("run", store=url).open)
        assert str(os.getpid()) in refused.value.owner
        assert "this process" in refused.value.owner
        assert run.step("goes on", lambda: 1) == 1
    assert store.get("run").status == "finished"


def test_killed_is_noticed_at_once(start: "Start", url: str, ledger: Ledger, store: holdfast.Store) -> None:
    """After SIGKILL the next start takes over without waiting, though the lease has most of its time to run.

    The killed process stays an unreaped zombie meanwhile: its parent does not wait for it.
    """
    holder = start("work", url)
    holder.hear("entered")
    holder.hear("inside")
    holder.signal(signal.SIGKILL)
    holder.until_state("Z")
    successor = start("work", url, "verified")
    assert successor.hear("entered")["attempt"] == 2
    successor.hear("inside")
    successor.tell("pay")
    successor.hear("paid")
    assert successor.hear("finished")["result"] == {"paid_by": successor.pid}
    holder.until_state("Z")
    assert ledger() == [str(successor.pid)]
    crashes = [e for e in store.events("run") if e.kind == "attempt.crashed"]
    assert len(crashes) == 1
    assert b'"proof":"dead"' in crashes[0].body
    assert b"in the middle of 'charge'" in crashes[0].body


def test_across_pid_namespaces(start: "Start", url: str, ledger: Ledger, namespace: list[str]) -> None:
    """Containers see other pids, here all are 1: a live holder is refused, a killed one is noticed at once."""
    holder = start("work", url, prefix=namespace)
    assert holder.hear("entered")["pid"] == 1
    holder.hear("inside")
    rival = start("work", url, prefix=namespace)
    assert rival.hear("refused")["owner"].startswith("process 1 on ")
    assert rival.wait() == 0
    os.kill(inner_pid(holder), signal.SIGKILL)
    successor = start("work", url, "verified", prefix=namespace)
    entered = successor.hear("entered")
    assert (entered["pid"], entered["attempt"]) == (1, 2)
    successor.hear("inside")
    successor.tell("pay")
    successor.hear("paid")
    successor.hear("finished")
    assert ledger() == ["1"]


@pytest.fixture
def namespace() -> list[str]:
    """The command that gives a process a PID namespace of its own; as root, or where users may."""
    import subprocess

    for command in (
        ["unshare", "--pid", "--fork"],
        ["unshare", "--user", "--map-root-user", "--pid", "--fork"],
    ):
        try:
            if subprocess.run([*command, "true"], check=False, capture_output=True).returncode == 0:
                return command
        except FileNotFoundError:
            break
    pytest.skip("this machine gives nobody a PID namespace of their own")


def inner_pid(worker: "Worker") -> int:
    """The worker behind ``unshare``, as this namespace sees it."""
    (child,) = Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()
    return int(child)
