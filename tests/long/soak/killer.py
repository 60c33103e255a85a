"""One store's soak: starts the workers, submits runs, and disturbs both; then waits until all has ended.

Every choice comes from the seed: who is killed or stopped and when, what is forked, rewound, pruned or exported, when
the disk is full or the server away, whose clock is wrong. What a seed cannot decide is how fast the machine is.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from tests.long.soak.places import LEASE_S, Place

import holdfast

ROOT: Final = Path(__file__).parents[3]
AGENTS: Final = Path(__file__).with_name("agents.py")
WORKERS: Final = 2
CONCURRENCY: Final = 4
_LOOK_S: Final = 0.05
LONGEST_PARK_S: Final = 120
"""A run that is due later was parked by a worker whose clock is far ahead: no agent sleeps longer than 5 s."""
_SHIFTS_S: Final = (0, 0, 0, 0, 90, -40, 3_600)
STAND_STILL: Final = frozenset({"in_doubt", "failed", "diverged", "cancelled", "finished"})


class Plan(NamedTuple):
    """How long, how many runs, how often something happens, and how long the runs may take after that."""

    place: Place
    seconds: float
    runs: int
    every_s: float
    wait_s: float
    seed: int


class Course(NamedTuple):
    """What was done, how often, and what was refused with which error of Holdfast's."""

    done: Counter[str]
    refused: Counter[str]
    in_time: bool
    took_s: float
    exits: list[int]


class Crew:
    """The worker processes; what they print lies in the place."""

    def __init__(self, plan: Plan, chance: Random, done: Counter[str]) -> None:
        self._plan, self._chance, self._done = plan, chance, done
        self._started = 0
        self.ended: list[int] = []
        """How workers ended that nobody had told to."""
        self.all = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        self._started += 1
        place = self._plan.place
        shift_s = self._chance.choice(_SHIFTS_S)
        self._done["clock jumps"] += shift_s != 0
        command = [sys.executable, "-m", "tests.long.soak.worker", "worker", str(AGENTS), "--json"]
        command += ["--store", place.url, "--concurrency", str(CONCURRENCY)]
        own = {"SOAK_PLACE": str(place.path), "SOAK_SHIFT_S": str(shift_s), "PYTHONPATH": _path()}
        with (place.path / f"worker-{self._started}.log").open("wb") as output:
            return subprocess.Popen(
                command,
                cwd=place.path,
                env={**os.environ, **own},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def kill(self) -> None:
        """SIGKILL, and another one in its place."""
        number = self._chance.randrange(WORKERS)
        self.all[number].kill()
        self.all[number].wait()
        self._done["kills"] += 1
        self.all[number] = self._start()

    def stop(self) -> None:
        """SIGSTOP for longer than a lease, so that the other one takes its runs; then it goes on, too late."""
        process = self.all[self._chance.randrange(WORKERS)]
        process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_S * self._chance.uniform(1.2, 2))
        process.send_signal(signal.SIGCONT)
        self._done["stops"] += 1

    def keep_up(self) -> None:
        """Replace those that ended by themselves: without its store, a worker says so and ends."""
        for number, process in enumerate(self.all):
            if (code := process.poll()) is not None:
                self.ended.append(code)
                self.all[number] = self._start()

    def drain(self) -> list[int]:
        """Tell all to end; how they did."""
        for process in self.all:
            process.terminate()
        return [process.wait(120) for process in self.all]

    def end(self) -> None:
        for process in self.all:
            if process.poll() is None:
                process.kill()
                process.wait()


def _path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))


class People:
    """What people do to runs meanwhile. An error of Holdfast's is an answer; any other ends the soak."""

    def __init__(self, plan: Plan, chance: Random, done: Counter[str]) -> None:
        self._store = holdfast.store(plan.place.url)
        self._plan, self._chance, self._done = plan, chance, done
        self.refused: Counter[str] = Counter()
        self._copies = 0

    def attempt(self, name: str, act: Callable[[], object]) -> None:
        """Do it, and count it."""
        try:
            if act() is not False:
                self._done[name] += 1
        except holdfast.HoldfastError as error:
            self.refused[f"{name}: {type(error).__name__}"] += 1

    def submit(self, number: int) -> None:
        kind = ("soak", "clerk")[number % 2]
        self._store.submit(kind, f"{kind}-{number}", {"number": number})

    def answer(self) -> object:
        """All that is asked for."""
        found = self._store.questions()
        for asked in found:
            self._store.answer(asked.run, "a")
        return bool(found)

    def fork(self) -> None:
        """From a random event of a random run; it goes on as a run of its own."""
        run, seq = self._somewhere()
        self._copies += 1
        self.call_up(self._store.fork(f"{run}@#{seq}", as_=f"fork-{self._copies}").run)

    def rewind(self) -> None:
        run, seq = self._somewhere()
        self._store.rewind(f"{run}@#{seq}")
        self.call_up(run)

    def prune(self) -> None:
        self._store.prune()

    def export(self) -> None:
        """And bring it in again, under another name."""
        run, _ = self._somewhere()
        self._copies += 1
        file = self._plan.place.path / f"{self._copies}.holdfast"
        self._store.export(run, file)
        self.call_up(self._store.import_(file, as_=f"import-{self._copies}").run)

    def _somewhere(self) -> tuple[str, int]:
        runs = sorted(info.run for info in self._store.runs() if "/" not in info.run and info.head > 3)
        if not runs:
            raise holdfast.Misuse(problem="there is no run yet", advice="")
        run = self._chance.choice(runs)
        return run, self._chance.choice(self._store.events(run, whole=True)).seq

    def call_up(self, run: str) -> None:
        self._store._port.call_up(run, at=time.time())

    def hurry(self) -> object:
        """Call up the runs that a worker has parked whose clock was far ahead: nobody here sees that hour pass.

        A worker by another clock takes them up, and says when they are due by its own.
        """
        late = [info.run for info in self._store.runs() if info.status == "parked"]
        rows = [row for run in late if (row := self._store._port.find_run(run)) is not None]
        for row in rows:
            if row.due_at is not None and row.due_at > time.time() + LONGEST_PARK_S:
                self.call_up(row.run)
                self._done["runs called up that a clock had parked for an hour"] += 1
        return False

    def statuses(self) -> dict[str, str]:
        return {info.run: info.status for info in self._store.runs()}

    def close(self) -> None:
        self._store.close()


def conduct(plan: Plan, tell: Callable[[str], None]) -> Course:
    """The whole soak of one store."""
    chance, done = Random(f"{plan.seed} {plan.place.kind}"), Counter[str]()
    began = time.monotonic()
    people = People(plan, chance, done)
    crew = Crew(plan, chance, done)
    acts: dict[str, Callable[[], object]] = {
        "forks": people.fork,
        "rewinds": people.rewind,
        "prunes": people.prune,
        "exports": people.export,
    }
    submitted, turn = 0, 0
    below = threading.Thread()
    try:
        while (passed := time.monotonic() - began) < plan.seconds:
            due = min(plan.runs, int(plan.runs * passed / (plan.seconds * 0.8)) + 1)
            if submitted < due:
                before = done["runs"]
                people.attempt("runs", lambda: people.submit(submitted))  # noqa: B023 - called at once
                submitted += done["runs"] - before
            if passed >= (turn + 1) * plan.every_s:
                turn += 1
                what = chance.choice(["kill", "kill", "kill", "stop", "below", *acts])
                if what == "kill":
                    crew.kill()
                elif what == "stop":
                    crew.stop()
                elif what != "below":
                    people.attempt(what, acts[what])
                elif not below.is_alive():
                    done[plan.place.disturbances] += 1
                    below = threading.Thread(target=plan.place.disturb, args=(Random(chance.random()),))
                    below.start()
                people.attempt("answers", people.answer)
            crew.keep_up()
            time.sleep(_LOOK_S)
        if below.ident is not None:
            below.join()
        tell(f"{plan.place.kind}: {dict(done)}; waiting for the runs to come to their end")
        in_time = _until_still(people, plan, crew)
        return Course(done, people.refused, in_time, time.monotonic() - began, [*crew.ended, *crew.drain()])
    finally:
        crew.end()
        people.close()


def _until_still(people: People, plan: Plan, crew: Crew) -> bool:
    deadline = time.monotonic() + plan.wait_s
    while time.monotonic() < deadline:
        people.attempt("answers", people.answer)
        found: dict[str, Any] = {}
        people.attempt("hurries", people.hurry)
        people.attempt("looks", lambda: found.update(people.statuses()))  # noqa: B023 - called at once
        # A full disk fails a run that cannot write an intent; a person starts it again when there is room.
        for run in [run for run, status in found.items() if status == "failed"]:
            people.attempt("failed runs called up", lambda: people.call_up(run))  # noqa: B023 - at once
        if (
            found
            and "failed" not in found.values()
            and not [run for run in found if not is_still(run, found)]
        ):
            return True
        crew.keep_up()
        time.sleep(0.5)
    return False


def is_still(run: str, statuses: dict[str, str]) -> bool:
    """Whether a run has come to its end, or waits for a person, or for a child that does.

    A branch that a rewind has kept waits for somebody who enters it.
    """
    if statuses[run] in STAND_STILL or "~" in run:
        return True
    below = [status for name, status in statuses.items() if name.startswith(f"{run}/")]
    return statuses[run] in {"parked", "queued"} and any(status in {"in_doubt", "failed"} for status in below)
