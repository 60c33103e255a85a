"""Starts the agent, follows its journal, and kills it.

Only this module ends a process, and only its own child.

It returns what a parent sees from outside: process ids, times, exit statuses, the journal. The invariant: a
returned performance had every requested kill, and ended with the agent's own normal exit.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import holdfast
from holdfast.cli.demo.agent import FILING_S, PROGRAM
from holdfast.cli.demo.evidence import Process, cut_off_in, recorded_count, rows_of
from holdfast.cli.demo.fake_model import Provider
from holdfast.cli.demo.kill_times import KillPoint, choose_kill_point
from holdfast.model.event_fields import part_of
from holdfast.model.events import Event

ROUNDS_MAX = 5
"""How often the demo starts over because the agent finished before the kill."""
_LOOK_S = 0.005
_STARTUP_S = 0.3
_LAST_PART = 0.6
_SHOWN_LINES_MAX = 6

Tell = Callable[[float, str], None]


class DemoFailed(Exception):
    """The agent ended in a way that the demo cannot explain."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


class DemoRun(NamedTuple):
    """Everything observed of one run of the agent, from its start to its end."""

    run: str
    ledger: Path
    processes: tuple[Process, ...]
    events: tuple[Event, ...]
    result: str
    status: str
    rounds: int


class DemoSetup(NamedTuple):
    """The directory, store and model of one performance."""

    directory: Path
    run: str
    ledger: Path
    store: holdfast.Store
    provider: Provider

    def events(self, after_seq: int = 0) -> list[Event]:
        """The run's journal so far; empty before the run exists."""
        try:
            return self.store.events(self.run, after_seq=after_seq)
        except holdfast.UnknownRun:
            return []


def store_in(directory: Path) -> Path:
    """The store of the demo. ``holdfast`` commands typed in that directory find it."""
    return directory / ".holdfast" / "holdfast.db"


def run_demo(provider: Provider, directory: Path, *, seed: int, kills: int, tell: Tell) -> DemoRun:
    """Run the agent and kill it this often at random points. Raises DemoFailed if it does not finish."""
    rng = Random(seed)  # noqa: S311 - chance that a seed repeats is what is wanted
    store = holdfast.store(store_in(directory))
    try:
        for number in range(1, ROUNDS_MAX + 1):
            suffix = "" if number == 1 else f"-{number}"
            setup = DemoSetup(
                directory, f"research{suffix}", directory / f"ledger{suffix}.jsonl", store, provider
            )
            provider.asked.clear()
            processes = Round(setup, rng, tell).play(kills)
            if processes is not None:
                return _performance(setup, processes, number)
    finally:
        store.close()
    raise DemoFailed(
        f"the agent finished before the kill, {ROUNDS_MAX} times", "try again, or with fewer --kills"
    )


def _performance(setup: DemoSetup, processes: list[Process], number: int) -> DemoRun:
    view = setup.store.view(setup.run)
    result = "" if view.result is None else str(part_of(view.result, "value"))
    status = setup.store.get(setup.run).status
    return DemoRun(setup.run, setup.ledger, tuple(processes), tuple(setup.events()), result, status, number)


class Round:
    """One try: the run from its first process to its last."""

    def __init__(self, setup: DemoSetup, rng: Random, tell: Tell) -> None:
        self._stage = setup
        self._rng = rng
        self._tell = tell
        self._began = time.monotonic()
        self._startup_s = _STARTUP_S
        self._processes: list[Process] = []

    def play(self, kills: int) -> list[Process] | None:
        """The processes, the last of which finished; None if the agent finished before a kill."""
        for done in range(kills):
            steps_left = len(PROGRAM) - recorded_count(self._stage.events())
            kill_point = choose_kill_point(
                self._rng, steps_left=steps_left, kills_left=kills - done, is_first=done == 0
            )
            if not self._one_process(kill_point).killed:
                self._tell(self._now(), "it was finished before the kill came: once more, from the start")
                return None
        self._one_process(None)
        return self._processes

    def _one_process(self, kill_point: KillPoint | None) -> Process:
        """Start the agent; kill it at the given point, or wait for its end."""
        number = len(self._processes) + 1
        after_seq = len(self._stage.events())
        began_s = self._now()
        output = self._stage.directory / f"{self._stage.run}.process-{number}.out"
        child = self._live(kill_point, output, after_seq)
        process = Process(
            number,
            child.pid,
            began_s,
            self._now(),
            child.returncode == -signal.SIGKILL,
            after_seq,
            len(self._stage.events()),
            frozenset(output.read_text().splitlines()),
        )
        if not process.killed and child.returncode != 0:
            raise DemoFailed(*_last_output(child, output.with_suffix(".err")))
        self._processes.append(process)
        self._tell(process.ended_s, f"process {child.pid} {self._ending(process)}")
        return process

    def _live(self, kill_point: KillPoint | None, output: Path, after_seq: int) -> "subprocess.Popen[bytes]":
        """One process of the agent from start to end. It never outlives this call."""
        with (
            output.open("wb") as out,
            output.with_suffix(".err").open("wb") as err,
            subprocess.Popen(self._command(), stdout=out, stderr=err, env=_environment()) as child,  # noqa: S603 - our own module
        ):
            try:
                how = ", by the same command" if self._processes else ""
                self._tell(self._now(), f"process {child.pid} started{how}")
                if kill_point is not None:
                    self._wait_for(kill_point, child, after_seq)
                    child.kill()
                child.wait(self._stage.provider.patience_s)
            except subprocess.TimeoutExpired as late:
                raise DemoFailed(f"process {child.pid} did not end within {late.timeout:.0f} s") from None
            finally:
                child.kill()  # on Ctrl-C and after a failure; no effect on a process that has ended
                child.wait()
        return child

    def _wait_for(self, kill_point: KillPoint, child: "subprocess.Popen[bytes]", after_seq: int) -> None:
        """Return at the kill point, or when the child has ended."""
        began = time.monotonic()
        wanted = recorded_count(self._stage.events()) + kill_point.records
        recorded = wanted - kill_point.records
        has_begun = False
        while child.poll() is None and recorded < wanted:
            if time.monotonic() - began > self._stage.provider.patience_s:
                raise subprocess.TimeoutExpired(child.args, time.monotonic() - began)
            time.sleep(_LOOK_S)
            events = self._stage.events()
            if len(events) > after_seq and not has_begun:
                has_begun, self._startup_s = True, time.monotonic() - began
            recorded = recorded_count(events)
        wait_s = _expected_s(recorded, self._stage.provider)
        if kill_point.records == 0:
            wait_s += self._startup_s
        try:
            child.wait(wait_s * kill_point.part)
        except subprocess.TimeoutExpired:
            return

    def _ending(self, process: Process) -> str:
        if not process.killed:
            return "finished by itself"
        cut = cut_off_in(rows_of(self._stage.events(), [*self._processes]), process)
        if cut:
            return f"killed with SIGKILL in the middle of: {', '.join(cut)}"
        if process.upto_seq == process.after_seq:
            return "killed with SIGKILL before it recorded anything"
        return "killed with SIGKILL between two steps"

    def _command(self) -> list[str]:
        setup = self._stage
        return [
            sys.executable,
            "-P",  # keep files in the user's directory from shadowing modules of ours or of Python
            "-m",
            "holdfast.cli.demo.agent",
            f"--run={setup.run}",
            f"--store={store_in(setup.directory)}",
            f"--ledger={setup.ledger}",
            f"--endpoint={setup.provider.endpoint}",
            f"--model={setup.provider.model}",
        ]

    def _now(self) -> float:
        return time.monotonic() - self._began


def _expected_s(recorded: int, provider: Provider) -> float:
    """The likely duration of the step after so many recorded ones, at least the last step's."""
    if recorded >= len(PROGRAM) - 1:
        return provider.expected_s * _LAST_PART  # a late kill would miss the last step
    return 2 * FILING_S if PROGRAM[recorded].startswith("file ") else provider.expected_s


def _environment() -> dict[str, str]:
    """The user's environment without the variables that point to the user's own store and runs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}


def _last_output(child: "subprocess.Popen[bytes]", errors: Path) -> tuple[str, str]:
    said = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    last = "\n  ".join(said[-_SHOWN_LINES_MAX:])
    return (
        f"process {child.pid} ended with exit status {child.returncode}:\n  {last}",
        "keep everything with --keep DIR",
    )
