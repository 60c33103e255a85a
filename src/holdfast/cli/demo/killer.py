"""Starts the agent, kills it where the seed says, and returns what a parent process sees from outside.

The children and the kill are those of ``holdfast.testing``, which a crash matrix uses, too. A kill has a
place and not a time: one side of one append to the journal. So a seed kills at the same place on every
machine. The places cover everything: a kill between two appends leaves the work begun and not recorded, or
not begun.
"""

import os
import time
from collections.abc import Callable
from contextlib import closing
from math import ceil
from pathlib import Path
from random import Random
from signal import SIGKILL

import holdfast
from holdfast.cli.demo import agent
from holdfast.cli.demo.agent import PROGRAM
from holdfast.cli.demo.evidence import Process, cut_off_in, recorded_count, rows_of
from holdfast.cli.demo.fake_model import Provider
from holdfast.model.event_fields import part_of
from holdfast.model.events import Event
from holdfast.model.named_tuple import NamedTuple
from holdfast.testing.child_process import Exit, Spawned
from holdfast.testing.killing_store import WHENS, Kill

RUN = "research"
_TIMEOUT_S = len(PROGRAM) * agent.ANSWER_TIMEOUT_S
_SHOWN_LINES_MAX = 6
_PLACES_PER_STEP = 4
"""A step appends its intent and its outcome, and each append has two sides."""
_FIRST_PLACE = 4
"""Behind the append that starts the attempt and the only one of the first step, the plan."""

Tell = Callable[[float, str], None]


class DemoFailed(Exception):
    """The agent ended in a way that the demo cannot explain."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


class DemoRun(NamedTuple):
    """Everything that was seen of the run, from its start to its end."""

    run: str
    ledger: Path
    processes: tuple[Process, ...]
    events: tuple[Event, ...]
    result: str
    status: str


def store_in(directory: Path) -> Path:
    """The store of the demo. ``holdfast`` commands typed in that directory find it."""
    return directory / ".holdfast" / "holdfast.db"


def choose_kill(rng: Random, *, steps_left: int, kills_left: int, is_first: bool) -> Kill:
    """A random place that leaves, on average, an even share of the work to every kill that follows.

    The first kill comes in the middle of a step, behind its intent or before its outcome. It never comes in
    the first step, so that there is something to replay. A later kill may come anywhere, even before the
    process has recorded anything.
    """
    low = _FIRST_PLACE if is_first else 0
    left = _PLACES_PER_STEP * steps_left
    share = ceil(2 * left / (kills_left + 1))
    place = rng.randint(low, max(low, min(low + share, left - 1)))
    if is_first:
        place = place // _PLACES_PER_STEP * _PLACES_PER_STEP + 1 + place % len(WHENS)
    return Kill(place // len(WHENS), WHENS[place % len(WHENS)], verb="append")


def run_demo(provider: Provider, directory: Path, *, seed: int, kills: int, tell: Tell) -> DemoRun:
    """Let the agent run and kill it this often; DemoFailed where it does not come to its end."""
    rng = Random(seed)  # noqa: S311 - chance that a seed repeats is what is wanted
    with closing(holdfast.store(store_in(directory))) as store:
        stage = _Stage(directory, store, provider, tell)
        for done in range(kills):
            steps_left = len(PROGRAM) - recorded_count(stage.events())
            stage.play(choose_kill(rng, steps_left=steps_left, kills_left=kills - done, is_first=done == 0))
        stage.play(None)
        result = store.view(RUN).result
        return DemoRun(
            RUN,
            stage.ledger,
            tuple(stage.processes),
            tuple(stage.events()),
            "" if result is None else str(part_of(result, "value")),
            store.get(RUN).status,
        )


class _Stage:
    """Where the agent runs, and the processes it has had."""

    def __init__(self, directory: Path, store: holdfast.Store, provider: Provider, tell: Tell) -> None:
        self.ledger = directory / "ledger.jsonl"
        self.processes: list[Process] = []
        self._directory = directory
        self._store = store
        self._provider = provider
        self._tell = tell
        self._began = time.monotonic()

    def events(self) -> list[Event]:
        """The run's journal so far; empty before the run is born."""
        try:
            return self._store.events(RUN)
        except holdfast.UnknownRun:
            return []

    def play(self, kill: Kill | None) -> None:
        """One process of the agent, to its kill or to its own end."""
        number, after_seq, began_s = len(self.processes) + 1, len(self.events()), self._now()
        self._tell(began_s, f"process {number} started{', by the same command' if self.processes else ''}")
        ended = self._start(number, kill)
        if ended.code != (0 if kill is None else -SIGKILL):
            raise DemoFailed(*_last_words(number, ended))
        process = Process(
            number,
            began_s,
            self._now(),
            kill is not None,
            after_seq,
            len(self.events()),
            frozenset(ended.output.splitlines()),
        )
        self.processes.append(process)
        self._tell(process.ended_s, f"process {number} {self._ending(process)}")

    def _start(self, number: int, kill: Kill | None) -> Exit:
        command = (
            agent.__file__,
            f"--run={RUN}",
            f"--store={store_in(self._directory)}",
            f"--ledger={self.ledger}",
            f"--endpoint={self._provider.endpoint}",
            f"--model={self._provider.model}",
        )
        # Leave out what would lead the agent to the user's own store and runs, or to a module in the kept
        # directory that has the name of one of ours or of Python's.
        env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        env["PYTHONSAFEPATH"] = "1"
        env |= {} if kill is None else kill.environment()
        output = self._directory / f"process-{number}.out"
        try:
            return Spawned().run(command, cwd=self._directory, env=env, output=output, timeout_s=_TIMEOUT_S)
        except TimeoutError as late:
            raise DemoFailed(str(late)) from None

    def _ending(self, process: Process) -> str:
        if not process.killed:
            return "finished by itself"
        cut = cut_off_in(rows_of(self.events(), self.processes), process)
        if cut:
            return f"killed with SIGKILL in the middle of: {', '.join(cut)}"
        if process.upto_seq == process.after_seq:
            return "killed with SIGKILL before it recorded anything"
        return "killed with SIGKILL between two steps"

    def _now(self) -> float:
        return time.monotonic() - self._began


def _last_words(number: int, ended: Exit) -> tuple[str, str]:
    said = [line for line in ended.output.splitlines() if line.strip()]
    last = "\n  ".join(said[-_SHOWN_LINES_MAX:])
    return (
        f"process {number} ended with exit status {ended.code}:\n  {last}",
        "keep everything with --keep DIR",
    )
