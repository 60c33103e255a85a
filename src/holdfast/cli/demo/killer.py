"""Starting the agent, watching its journal, and killing it: the only place that ends a process, and only its own.

What it hands back is what a parent sees from outside: process ids, times, exit statuses, the journal. The invariant:
a performance that is handed back had every kill that was asked for, and ended with the agent's own normal exit.
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
from holdfast.cli.demo.kill_times import Moment, choose_moment
from holdfast.model.event_fields import part_of
from holdfast.model.events import Event

ROUNDS_MAX = 5
"""How often it begins again because the agent was quicker than the kill."""
_LOOK_S = 0.005
_STARTUP_S = 0.3
_LAST_PART = 0.6
_SHOWN_LINES_MAX = 6

Tell = Callable[[float, str], None]


class DemoFailed(Exception):
    """The agent ended in a way that the demonstration cannot explain away."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


class Performance(NamedTuple):
    """Everything that was seen of one run of the agent, from its start to its end."""

    run: str
    ledger: Path
    processes: tuple[Process, ...]
    events: tuple[Event, ...]
    result: str
    status: str
    rounds: int


class Stage(NamedTuple):
    """Where one performance happens."""

    directory: Path
    run: str
    ledger: Path
    store: holdfast.Store
    provider: Provider

    def events(self, after_seq: int = 0) -> list[Event]:
        """The run's journal as it stands; empty before the run is born."""
        try:
            return self.store.events(self.run, after_seq=after_seq)
        except holdfast.UnknownRun:
            return []


def store_in(directory: Path) -> Path:
    """Where the demonstration keeps its store: found by ``holdfast`` commands typed in that directory."""
    return directory / ".holdfast" / "holdfast.db"


def perform(provider: Provider, directory: Path, *, seed: int, kills: int, tell: Tell) -> Performance:
    """Let the agent run and kill it this often at random moments; DemoFailed where it does not come to its end."""
    rng = Random(seed)  # noqa: S311 - chance that a seed repeats is what is wanted
    store = holdfast.store(store_in(directory))
    try:
        for number in range(1, ROUNDS_MAX + 1):
            suffix = "" if number == 1 else f"-{number}"
            stage = Stage(
                directory, f"research{suffix}", directory / f"ledger{suffix}.jsonl", store, provider
            )
            provider.asked.clear()
            processes = Round(stage, rng, tell).play(kills)
            if processes is not None:
                return _performance(stage, processes, number)
    finally:
        store.close()
    raise DemoFailed(
        f"the agent came to its end before the kill, {ROUNDS_MAX} times", "try again, or with fewer --kills"
    )


def _performance(stage: Stage, processes: list[Process], number: int) -> Performance:
    view = stage.store.view(stage.run)
    result = "" if view.result is None else str(part_of(view.result, "value"))
    status = stage.store.get(stage.run).status
    return Performance(
        stage.run, stage.ledger, tuple(processes), tuple(stage.events()), result, status, number
    )


class Round:
    """One try: the run from its first process to its last."""

    def __init__(self, stage: Stage, rng: Random, tell: Tell) -> None:
        self._stage = stage
        self._rng = rng
        self._tell = tell
        self._began = time.monotonic()
        self._startup_s = _STARTUP_S
        self._processes: list[Process] = []

    def play(self, kills: int) -> list[Process] | None:
        """The processes, the last of which finished; None when the agent was quicker than a kill."""
        for done in range(kills):
            steps_left = len(PROGRAM) - recorded_count(self._stage.events())
            moment = choose_moment(
                self._rng, steps_left=steps_left, kills_left=kills - done, is_first=done == 0
            )
            if not self._one_process(moment).killed:
                self._tell(self._now(), "it was finished before the kill came: once more, from the start")
                return None
        self._one_process(None)
        return self._processes

    def _one_process(self, moment: Moment | None) -> Process:
        """Start the agent; kill it at the moment, or let it come to its end."""
        number = len(self._processes) + 1
        after_seq = len(self._stage.events())
        began_s = self._now()
        output = self._stage.directory / f"{self._stage.run}.process-{number}.out"
        child = self._live(moment, output, after_seq)
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
            raise DemoFailed(*_last_words(child, output.with_suffix(".err")))
        self._processes.append(process)
        self._tell(process.ended_s, f"process {child.pid} {self._ending(process)}")
        return process

    def _live(self, moment: Moment | None, output: Path, after_seq: int) -> "subprocess.Popen[bytes]":
        """A process of the agent from its start to its end, which it does not outlive whatever happens here."""
        with (
            output.open("wb") as out,
            output.with_suffix(".err").open("wb") as err,
            subprocess.Popen(self._command(), stdout=out, stderr=err, env=_environment()) as child,  # noqa: S603 - our own module
        ):
            try:
                how = ", by the same command" if self._processes else ""
                self._tell(self._now(), f"process {child.pid} started{how}")
                if moment is not None:
                    self._wait_for(moment, child, after_seq)
                    child.kill()
                child.wait(self._stage.provider.patience_s)
            except subprocess.TimeoutExpired as late:
                raise DemoFailed(f"process {child.pid} did not end within {late.timeout:.0f} s") from None
            finally:
                child.kill()  # on Ctrl-C and after a failure; without effect on one that has ended
                child.wait()
        return child

    def _wait_for(self, moment: Moment, child: "subprocess.Popen[bytes]", after_seq: int) -> None:
        """Come back at the moment, or when the child has ended."""
        began = time.monotonic()
        wanted = recorded_count(self._stage.events()) + moment.records
        recorded = wanted - moment.records
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
        if moment.records == 0:
            wait_s += self._startup_s
        try:
            child.wait(wait_s * moment.part)
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
        stage = self._stage
        return [
            sys.executable,
            "-P",  # a file of the user's that is called like one of ours or of Python's is not what is meant
            "-m",
            "holdfast.cli.demo.agent",
            f"--run={stage.run}",
            f"--store={store_in(stage.directory)}",
            f"--ledger={stage.ledger}",
            f"--endpoint={stage.provider.endpoint}",
            f"--model={stage.provider.model}",
        ]

    def _now(self) -> float:
        return time.monotonic() - self._began


def _expected_s(recorded: int, provider: Provider) -> float:
    """How long the step after so many recorded ones is likely to take; the last one, at least."""
    if recorded >= len(PROGRAM) - 1:
        return provider.expected_s * _LAST_PART  # a kill that is late here comes after the end
    return 2 * FILING_S if PROGRAM[recorded].startswith("file ") else provider.expected_s


def _environment() -> dict[str, str]:
    """The user's environment without what would lead the agent to the user's own store and runs."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}


def _last_words(child: "subprocess.Popen[bytes]", errors: Path) -> tuple[str, str]:
    said = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    last = "\n  ".join(said[-_SHOWN_LINES_MAX:])
    return (
        f"process {child.pid} ended with exit status {child.returncode}:\n  {last}",
        "keep everything with --keep DIR",
    )
