"""Real ``holdfast worker`` processes on a store that they share: killed, stopped, told to drain, with wrong clocks.

The world's side is told by files that Holdfast has no hand in (see ``programs/served.py``). The agents wait at gates, so that
a test knows where each run stands when it strikes.

Planted once in a copy, and caught here: a drained run that is not due; silence that is measured by wall clocks; an ended
child that tells nobody; suspects that run beside each other; a late letter that stays with a run that is over.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fork_server import fork_server

import holdfast
from holdfast.model.event_fields import contents_of
from holdfast.model.store_rows import RunRow

PROGRAMS = Path(__file__).parent / "programs"
DEADLINE_S = 60.0
"""For a busy machine; an idle one takes a second or two."""


class Hand:
    """A worker process; what it tells goes to a file."""

    def __init__(self, command: list[str], place: Path, number: int) -> None:
        self._log = place / f"worker-{number}.log"
        with self._log.open("wb") as output, Path(os.devnull).open("rb") as nothing:
            self.process = fork_server().start(
                command, cwd=place, env=os.environ, stdin=nothing.fileno(), stdout=output.fileno()
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def told(self) -> str:
        return self._log.read_text(errors="replace")

    def reports(self, what: str) -> list[dict[str, Any]]:
        """What it told of this kind."""
        lines = [json.loads(line) for line in self.told().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == what]

    def until(self, what: str) -> dict[str, Any]:
        """Wait until it tells this."""
        eventually(lambda: self.reports(what) or self.process.poll() is not None, self.told)
        assert self.reports(what), (
            f"ended ({self.process.returncode}) before it told {what!r}:\n{self.told()}"
        )
        return self.reports(what)[0]

    def signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def wait(self) -> int:
        return self.process.wait(DEADLINE_S)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)


class Scene:
    """A store, the directory that is the world, and the workers in it."""

    def __init__(self, url: str, place: Path) -> None:
        self.url, self.place = url, place
        self.store = holdfast.store(url)
        self.hands: list[Hand] = []

    def start(self, *options: str) -> Hand:
        """``holdfast worker`` with these options, once it has begun to claim."""
        return self._started(
            [
                str(PROGRAMS / "command.py"),
                "worker",
                str(PROGRAMS / "served.py"),
                "--store",
                self.url,
                "--json",
                *options,
            ]
        )

    def start_skewed(self, seconds: float) -> Hand:
        return self._started([str(PROGRAMS / "skewed.py"), self.url, str(seconds)])

    def _started(self, command: list[str]) -> Hand:
        hand = Hand(command, self.place, len(self.hands))
        self.hands.append(hand)
        return hand

    def submit(self, agent: str, run: str, **inputs: Any) -> str:
        assert self.store.submit(agent, run, inputs)
        return run

    def row(self, run: str) -> RunRow:
        row = self.store._port.find_run(run)
        assert row is not None
        return row

    def until(self, status: str, *runs: str) -> None:
        """Wait until all these runs stand like this, and nobody holds them."""

        def told() -> str:
            stand = {run: self.store.get(run).status for run in runs}
            return f"{stand}\n" + "\n".join(hand.told() for hand in self.hands)

        eventually(
            lambda: all((row.status, row.lease.owner) == (status, "") for row in map(self.row, runs)), told
        )

    def until_inside(self, run: str) -> int:
        """Wait until the run stands at its gate; the process that it is in."""
        path = self.place / f"inside-{run}"
        eventually(
            lambda: path.exists() and path.read_text(), lambda: "\n".join(h.told() for h in self.hands)
        )
        return int(path.read_text())

    def open_gates(self) -> None:
        (self.place / "go").touch()

    def lines(self, file: str) -> list[dict[str, Any]]:
        path = self.place / file
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def paid(self) -> Counter[str]:
        return Counter(line["run"] for line in self.lines("ledger"))

    def attempts(self, run: str) -> list[str | None]:
        """How the run's attempts ended."""
        return [attempt.how for attempt in self.store.view(run).attempts]

    def drain(self) -> list[int]:
        """Tell all that live to end; how they did."""
        living = [hand for hand in self.hands if hand.process.poll() is None]
        for hand in living:
            hand.until("started")
            hand.signal(signal.SIGTERM)
        return [hand.wait() for hand in living]


def eventually(holds: Callable[[], object], told: Callable[[], str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, told()
        time.sleep(0.02)


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """A store whose leases are short, so that silence is noticed soon."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'shared.db'}?lease_s=1"
    else:
        url = f"{request.getfixturevalue('postgres_url')}&lease_s=1"
    made = Scene(url, tmp_path)
    yield made
    for hand in made.hands:
        hand.end()
    made.store.close()


def test_each_run_is_run_by_one_of_three_workers(scene: Scene) -> None:
    """Thirty runs, claimed at the same time by three: each has one attempt and one payment, and all have had a share."""
    runs = [scene.submit("steady", f"run-{n}", me=f"run-{n}") for n in range(30)]
    for _ in range(3):
        scene.start("--concurrency", "1")
    scene.until("finished", *runs)
    assert scene.drain() == [0, 0, 0]
    assert {run: scene.attempts(run) for run in runs} == {run: ["finished"] for run in runs}
    assert scene.paid() == dict.fromkeys(runs, 1)
    assert {line["pid"] for line in scene.lines("ledger")} == {hand.pid for hand in scene.hands}


def test_the_runs_of_a_killed_worker_are_finished_by_the_others(scene: Scene) -> None:
    """SIGKILL in the middle of two runs of six: those two have a second attempt, the others do not notice."""
    runs = [scene.submit("gated", f"run-{n}", me=f"run-{n}") for n in range(6)]
    for _ in range(3):
        scene.start("--concurrency", "2")
    holders = {run: scene.until_inside(run) for run in runs}
    victim = next(hand for hand in scene.hands if hand.pid == holders["run-0"])
    victim.signal(signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    scene.open_gates()
    scene.until("finished", *runs)
    assert scene.drain() == [0, 0]
    for run in runs:
        was_struck = holders[run] == victim.pid
        assert scene.attempts(run) == (["crashed", "finished"] if was_struck else ["finished"])
    begun = Counter(
        (line["run"], line["number"]) for line in scene.lines("calls") if line["what"] == "begins"
    )
    assert begun == {(run, number): 1 for run in runs for number in (1, 2)}
    assert scene.paid() == dict.fromkeys(runs, 1)


def test_a_drained_worker_hands_its_run_on(scene: Scene) -> None:
    """SIGTERM: what has begun is recorded, the run stops at its next call and is due; another worker goes on."""
    run = scene.submit("gated", "run", me="run")
    first = scene.start()
    scene.until_inside(run)
    first.signal(signal.SIGTERM)
    first.until("draining")
    scene.open_gates()
    assert first.wait() == 0
    row = scene.row(run)
    assert (row.status, row.lease.owner) == ("interrupted", "")
    assert row.due_at is not None
    assert scene.paid() == {}
    scene.start()
    scene.until("finished", run)
    assert scene.attempts(run) == ["interrupted", "finished"]
    assert [line["number"] for line in scene.lines("calls") if line["what"] == "begins"] == [1, 2]
    assert scene.paid() == {"run": 1}


def test_a_step_that_outlasts_the_drain_is_left_to_another(scene: Scene) -> None:
    """The worker ends with 1 and says what it left; whoever takes over makes the step again."""
    run = scene.submit("gated", "run", me="run")
    first = scene.start("--drain-s", "0.2")
    scene.until_inside(run)
    first.signal(signal.SIGTERM)
    assert first.wait() == 1
    assert run in first.reports("left")[0]["text"]
    scene.open_gates()
    scene.start()
    scene.until("finished", run)
    assert scene.attempts(run) == ["crashed", "finished"]
    assert scene.paid() == {"run": 1}


def test_told_twice_a_worker_ends_at_once(scene: Scene) -> None:
    """A second SIGTERM does not wait for anything; the run is taken over like that of any dead worker."""
    run = scene.submit("gated", "run", me="run")
    first = scene.start("--drain-s", "1000")
    scene.until_inside(run)
    first.signal(signal.SIGTERM)
    first.until("draining")
    first.signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM
    scene.open_gates()
    scene.start()
    scene.until("finished", run)
    assert scene.paid() == {"run": 1}


def test_a_poisonous_run_is_parked_and_takes_nobody_along(scene: Scene) -> None:
    """It gets on once, and three more attempts do not; then it is parked with the reasons, and four workers have died of it.

    Runs beside it crash, too, again and again before they can get on. Those that one more crash would park get their turn
    without anything beside them that has crashed, and so come to their end.
    """
    innocent = [scene.submit("steady", f"run-{n}", me=f"run-{n}", steps=6, seconds=0.05) for n in range(3)]
    poison = scene.submit("poison", "poison")

    def keep_up() -> bool:
        if not scene.hands or scene.hands[-1].process.poll() is not None:
            scene.start("--crashes", "3", "--concurrency", "8")
        return all(
            scene.store.get(run).status == ("parked" if run == poison else "finished")
            for run in (*innocent, poison)
        )

    eventually(keep_up, lambda: "\n".join(hand.told() for hand in scene.hands))
    assert scene.drain() == [0]
    assert [hand.process.returncode for hand in scene.hands[:-1]] == [-signal.SIGKILL] * 4
    assert scene.attempts(poison) == ["crashed"] * 4 + ["parked"]
    row = scene.row(poison)
    assert (row.due_at, row.lease.owner) == (None, "")
    (parked,) = scene.hands[-1].reports("parked")
    assert "3 attempts crashed" in parked["text"]
    for hand in scene.hands[1:-1]:
        assert f"process {hand.pid}" in parked["text"]
    assert scene.paid() == dict.fromkeys(innocent, 1)


@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_a_worker_that_was_stopped_past_its_lease_writes_nothing_more(scene: Scene, effect: str) -> None:
    """SIGSTOP in the middle of a payment: another takes over. The first one wakes, pays late, and its record is refused.

    A once payment is in doubt meanwhile, and settled by what the late one left in the inbox. One that may be repeated with
    its key is made again, under the same key.
    """
    run = scene.submit("payer", "run", me="run", effect=effect)
    first = scene.start()
    assert scene.until_inside(run) == first.pid
    first.signal(signal.SIGSTOP)
    scene.start()
    if effect == "once":
        scene.until("in_doubt", run)
        assert [doubt.step for doubt in scene.store.doubts(run)] == ["pay_behind_gate"]
    else:
        eventually(lambda: scene.until_inside(run) != first.pid, lambda: "it is not taken over")
    scene.open_gates()
    if effect == "idempotent":
        scene.until("finished", run)
    fences = [event.fence for event in scene.store.events(run) if event.kind == "attempt.started"]
    before = sum(event.fence == fences[0] for event in scene.store.events(run))
    first.signal(signal.SIGCONT)
    first.until("lost")
    scene.until("finished", run)
    # A late outcome that nobody waits for any more is cleared away.
    eventually(
        lambda: not scene.store._port.scan_records(f"inbox/{run}", limit=10), lambda: "a letter is left"
    )
    assert scene.drain() == [0, 0]
    events = scene.store.events(run)
    assert sum(event.fence == fences[0] for event in events) == before, "a late write reached the journal"
    keys = {line["key"] for line in scene.lines("ledger")}
    assert len(keys) == 1
    assert {line["pid"] for line in scene.lines("ledger")} == {
        hand.pid for hand in (scene.hands if effect == "idempotent" else [first])
    }


def test_clocks_that_differ_by_a_minute_do_no_harm(scene: Scene) -> None:
    """Three workers, a minute ahead, right, a minute behind: no run is at work in two of them at a time, or taken over."""
    runs = [
        scene.submit("steady", f"run-{n}", me=f"run-{n}", steps=4, seconds=0.4) for n in range(6)
    ]  # longer than their leases
    for run in runs:
        scene.store._port.call_up(run, at=time.time() - 120)  # due by every clock
    for seconds in (60, 0, -60):
        scene.start_skewed(seconds)
    scene.until("finished", *runs)
    assert scene.drain() == [0, 0, 0]
    assert {run: scene.attempts(run) for run in runs} == {run: ["finished"] for run in runs}
    for run in runs:
        calls = [line for line in scene.lines("calls") if line["run"] == run]
        assert [line["what"] for line in calls] == ["begins", "ends"] * 4
        assert len({line["pid"] for line in calls}) == 1
    assert len({line["pid"] for line in scene.lines("ledger")}) == 3
    assert scene.paid() == dict.fromkeys(runs, 1)


def test_parent_and_child_run_on_different_workers(scene: Scene) -> None:
    """Each worker serves one of the two agents only: the one that waits parks, and is called up when the other has ended."""
    runs = [scene.submit("parent", f"run-{n}", me=f"run-{n}") for n in range(3)]
    above, below = scene.start("--agent", "parent"), scene.start("--agent", "child")
    scene.until("finished", *runs)
    assert scene.drain() == [0, 0]
    for run in runs:
        result = contents_of(scene.store.view(run).result or b"{}")["value"]
        assert result == {"parent": above.pid, "child": below.pid}
        assert set(scene.attempts(run)) <= {"parked", "finished"}
        assert scene.attempts(f"{run}/part") == ["finished"]
        assert scene.store._port.scan_records(f"inbox/{run}", limit=10) == []
    assert scene.paid() == dict.fromkeys([*runs, *(f"{run}/part" for run in runs)], 1)
