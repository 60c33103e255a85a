"""Starts the workers, submits runs, kills a worker every second, restarts the server; then waits until all has ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.support.postgres.server import Server

import holdfast

ROOT: Final = Path(__file__).parents[3]
AGENTS: Final = Path(__file__).with_name("agents.py")
WORKERS: Final = 3
CONCURRENCY: Final = 6
LEASE_S: Final = 3
_HOLDFAST: Final = "from holdfast.cli import main; main()"
_AWAY: Final = ("refused", "starting up", "shutting down", "closed the connection", "not yet accepting")
_LOOK_S: Final = 0.05
_HEAR_S: Final = 60
_STAND_STILL: Final = frozenset({"in_doubt", "failed", "diverged", "cancelled", "finished"})


class Plan(NamedTuple):
    """How long, how many runs, how often something is killed, and how often the server is restarted meanwhile."""

    place: Path
    url: str
    server: Server | None
    seconds: float
    runs: int
    kill_every_s: float
    restarts: int
    wait_s: float
    seed: int


class Course(NamedTuple):
    """What happened."""

    kills: int
    restarts: int
    took_s: float
    in_time: bool
    """Whether all runs came to stand still before the patience of the director ended."""
    turned_away: int
    """Workers that were started while the server was away, said so, and ended."""
    exits: list[int]
    """How the other workers ended when they were told to, or by themselves."""


class Hand(NamedTuple):
    """A worker, and where it tells what it does."""

    process: subprocess.Popen[bytes]
    log: Path


class Crew:
    """The worker processes; what they print lies in the place."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._started = 0
        self.turned_away = 0
        self.unbidden: list[int] = []
        self.all = [self._start() for _ in range(WORKERS)]

    def _start(self) -> "Hand":
        self._started += 1
        log = self._plan.place / f"worker-{self._started}.log"
        command = [sys.executable, "-c", _HOLDFAST, "worker", str(AGENTS), "--json"]
        command += ["--store", self._plan.url, "--concurrency", str(CONCURRENCY)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._plan.place,
                env={**os.environ, "SOAK_PLACE": str(self._plan.place), "PYTHONPATH": _path()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return Hand(process, log)

    def kill(self, number: int) -> None:
        """SIGKILL, and another one in its place."""
        self.all[number].process.kill()
        self.all[number].process.wait()
        self.all[number] = self._start()

    def keep_up(self) -> None:
        """Replace those that ended by themselves."""
        for number, (process, log) in enumerate(self.all):
            if (code := process.poll()) is None:
                continue
            told = log.read_text(errors="replace")
            if code == 1 and '"event"' not in told and any(words in told for words in _AWAY):
                self.turned_away += 1
            else:
                self.unbidden.append(code)
            self.all[number] = self._start()

    def drain(self) -> list[int]:
        """Tell all to end, once they can hear it; how they did."""
        deadline = time.monotonic() + _HEAR_S
        while not all('"started"' in log.read_text(errors="replace") for _, log in self.all):
            assert time.monotonic() < deadline, "a worker does not start"
            time.sleep(_LOOK_S)
        for process, _ in self.all:
            process.terminate()
        return [process.wait(60) for process, _ in self.all]

    def end(self) -> None:
        for process, _ in self.all:
            if process.poll() is None:
                process.kill()
                process.wait()


def _path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))


def conduct(plan: Plan, tell: Callable[[str], None]) -> Course:
    """The whole soak. A worker that ended by itself is an exit in the answer."""
    chance = Random(plan.seed)
    began = time.monotonic()
    store = holdfast.store(plan.url)
    crew = Crew(plan)
    kills = restarts = submitted = 0
    try:
        while (passed := time.monotonic() - began) < plan.seconds:
            due = min(plan.runs, int(plan.runs * passed / (plan.seconds * 0.8)) + 1)
            while submitted < due:
                store.submit("soak", f"soak-{submitted}", {"number": submitted})
                submitted += 1
            if passed >= (kills + 1) * plan.kill_every_s:
                crew.kill(chance.randrange(WORKERS))
                kills += 1
            if plan.server is not None and passed >= plan.seconds * (restarts + 1) / (plan.restarts + 1):
                tell(f"{passed:.0f} s: the server is restarted")
                plan.server.stop("immediate")
                time.sleep(chance.uniform(0, 2))
                plan.server.start()
                restarts += 1
            crew.keep_up()
            time.sleep(_LOOK_S)
        tell(f"{kills} kills, {restarts} restarts; waiting for the runs to come to their end")
        in_time = _until_still(store, plan, crew)
        took_s = time.monotonic() - began
        return Course(kills, restarts, took_s, in_time, crew.turned_away, [*crew.unbidden, *crew.drain()])
    finally:
        crew.end()
        store.close()


def _until_still(store: holdfast.Store, plan: Plan, crew: Crew) -> bool:
    deadline = time.monotonic() + plan.wait_s
    while time.monotonic() < deadline:
        with suppress(holdfast.StoreError):
            known = {info.run: info.status for info in store.runs()}
            parents = [known.get(f"soak-{number}") for number in range(plan.runs)]
            if all(status in _STAND_STILL for status in parents):
                return True
            # A child in doubt holds its parent up, and that is as it should be.
            waiting = [
                number
                for number, status in enumerate(parents)
                if status not in _STAND_STILL
                and known.get(f"soak-{number}/part") not in {"in_doubt", "failed"}
            ]
            if not waiting:
                return True
        crew.keep_up()
        time.sleep(0.2)
    return False


def signal_name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"
