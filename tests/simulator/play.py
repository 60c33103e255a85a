"""Plays a script, lets every run come to its end, and says which promise was broken."""

import os
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple
from unittest.mock import patch

from tests.simulator.machine import Fault, Process
from tests.simulator.programs import RECEIVER, Maker, use
from tests.simulator.script import PROCESSES, TASKS, Line, Script, theme_of
from tests.simulator.simulation import EFFECTS, MAIN, Branch, Simulation
from tests.simulator.tasks import Tasks

from holdfast.engine.drift import guard, program
from holdfast.engine.journal import journal

ROUNDS_MAX: Final = 25
FAULTS: Final[tuple[tuple[Fault | None, ...], ...]] = (
    ("before",), ("after",), ("late",), (None, "after"), (None, None, "after"), (None, "before", "before"), (None, "late"),
    ("before", "before", "before"), (None, None, None, "after", "before"),
)  # fmt: skip
CALLS_TO_EFFECT: Final = 30
TIMES_S: Final = (1.0, 5.0, 13.0, 31.0, 100.0)


class Played(NamedTuple):
    """How a script went: what broke, the hash of its trace, and what was counted."""

    broken: tuple[str, ...]
    digest: str
    counts: Counter[str]


def play(script: Script) -> Played:
    """Play a script from its beginning to the end of all runs."""
    with TemporaryDirectory() as directory, ExitStack() as stack:
        playing = Playing(script, Path(directory))
        sim = playing.sim
        use(sim)
        stack.enter_context(patch.object(guard, "modules", sim.modules))
        stack.enter_context(patch.object(program, "modules", sim.modules))
        stack.enter_context(patch.object(os, "urandom", sim.machine.random_bytes))
        stack.enter_context(
            patch.object(journal, "watch", lambda _: None)
        )  # its thread would look at a real clock
        try:
            playing.go()
        finally:
            sim.machine.kill_all()
        return Played(tuple(playing.broken), sim.machine.digest, sim.machine.counts)


class Playing:
    """One script on its way."""

    def __init__(self, script: Script, directory: Path) -> None:
        self.script = script
        self.sim = Simulation()
        self.tasks = Tasks(self.sim, directory)
        random = Random(script.seed)
        self._maker = Maker(random, with_messages=theme_of(script.seed).with_messages)
        for number in range(random.randint(12, 30)):
            self.sim.add(Branch(MAIN, f"r{number}", self._maker.program()))
        self._roots = [*self.sim.branches.values()]
        for branch in self.sim.branches.values():
            for op in branch.program.ops:
                for each in (op, *op.body):
                    if random.random() < 0.25:
                        self.sim.modes[each.uid] = random.choice(["before", "after"])

    @property
    def broken(self) -> list[str]:
        """What broke so far."""
        late = [text for disk in self.sim.machine.disks.values() for text in disk.broken]
        return [*self.sim.broken, *late]

    def go(self) -> None:
        self._work("a", "receive", self._branch(0), 0, 0)
        for line in self.script.lines:
            self._play(line)
            if self.broken:
                return
        self._end()

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _play(self, line: Line) -> None:
        machine = self.sim.machine
        machine.trace(str(line))
        machine.counts["lines"] += 1
        if line.verb == "time":
            machine.pass_time(TIMES_S[line.a % len(TIMES_S)])
        elif line.verb == "power":
            self._cut_power(line)
        elif line.verb == "edit":
            program = self._branch(line.place).program
            program.edit(self._maker.new_op(), line.a)
        else:
            process = machine.process(line.process, 1 if line.process == "c" else 0)
            if line.verb == "kill":
                process.die()
                machine.counts["kills"] += 1
            elif line.verb == "stop":
                process.is_stopped = process.is_busy
                machine.counts["stops"] += process.is_stopped
            elif line.verb == "wake":
                process.is_stopped = False
            elif line.verb == "fault":
                process.faults = [*FAULTS[line.a % len(FAULTS)]]
            elif line.verb == "takeover":
                self._take_over(process, line)
            elif not process.is_stopped:
                if line.verb in TASKS and not process.is_busy:
                    self._begin(process, line.verb, self._branch(line.place), line.a, line.b)
                process.go(line.calls)

    def _take_over(self, holder: Process, line: Line) -> None:
        """A process is stopped in the middle of its work, another one goes on with it, and the first one wakes."""
        machine = self.sim.machine
        self._put_to_work(holder, line)
        others = [one for one in PROCESSES if one != holder.name]
        other = machine.process(others[line.b % 2], 1 if others[line.b % 2] == "c" else 0)
        other.is_stopped = False
        other.go()
        here = self.sim.at.get(holder.owner)
        if here is None or not holder.is_busy:
            return
        machine.counts["takeovers"] += 1
        for _ in range(line.a % CALLS_TO_EFFECT):  # often where it hurts: in the middle of an effect
            if holder in self.sim.in_flight.values() or not holder.is_busy:
                break
            holder.go(0)
        holder.is_stopped = True
        machine.pass_time(31.0)
        self._begin(other, "enter", here[0], line.a, line.b)
        other.go(line.calls)
        holder.is_stopped = False
        holder.go(line.b % 21)

    def _put_to_work(self, process: Process, line: Line) -> None:
        """Let it be in the middle of something: what is idle has nothing to lose."""
        process.is_stopped = False
        if not process.is_busy:
            self._begin(process, "enter", self._branch(line.place), line.a, line.b)
        process.go(line.calls % 15)

    def _begin(self, process: Process, what: str, branch: Branch, a: int, b: int) -> None:
        process.begin(lambda: self.tasks.run(process, what, branch, a, b))

    def _branch(self, place: int) -> Branch:
        begun = self.sim.places()
        fresh = [one for one in self._roots if self.sim.row(MAIN, one.run) is None]
        found = [*begun, *fresh[:2]]
        return found[place % len(found)]

    def _cut_power(self, line: Line) -> None:
        """The host of the stores loses its power; a process elsewhere lives on, and its next call fails."""
        machine = self.sim.machine
        if line.process != "c":
            self._put_to_work(machine.process(line.process), line)
        machine.kill_all(host=0)
        machine.late.clear()
        for disk in machine.disks.values():
            kept = line.a % (len(disk.unsynced) + 1)
            machine.counts["flushed writes lost"] += disk.cut_power(kept)
        machine.counts["power cuts"] += 1
        for process in machine.processes.values():
            if not process.is_dead:
                process.faults = ["before"]
        machine.pass_time(1.0)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Everybody dies; then one process goes on with everything, and nothing goes wrong any more."""
        machine = self.sim.machine
        machine.kill_all()
        machine.late.clear()
        machine.pass_time(60.0)
        self._take_up_again()
        for branch in self.sim.places():
            if branch.run != RECEIVER:
                self._finish(branch)
                if self.broken:
                    return
        for branch in self.sim.places()[::2]:
            if branch.run != RECEIVER:
                self._work("z", "finish", branch, 0, 0)  # once more: it only replays
        self._work("z", "receive", self._branch(0), 0, 0)
        self._check_ends()

    def _take_up_again(self) -> None:
        """Moves and handoffs that were interrupted are repeated."""
        for store, run in self.tasks.parcels:
            row = self.sim.row(f"{store}+", run)
            if row is None or row.status == "importing":
                self._work("z", "move", self.sim.branches[store, run], 0, 0)
        for (store, run), name in self.tasks.handed.items():
            if (row := self.sim.row(store, name)) is None or not row.head:
                self._work("z", "handoff", self.sim.branches[store, run], 0, 0)

    def _finish(self, branch: Branch) -> None:
        machine = self.sim.machine
        for _ in range(ROUNDS_MAX):
            process = self._work("z", "finish", branch, 0, 0)
            row = self.sim.row(branch.store, branch.run)
            if row is None or row.status == "finished" or self.broken:
                break
            self._work("z", "people", branch, 0, 0)
            machine.pass_time(31.0)
        else:
            self.sim.broken.append(f"{branch.run} does not come to its end: {process.story}")
        machine.counts["runs"] += 1

    def _work(self, name: str, what: str, branch: Branch, a: int, b: int) -> Process:
        process = self.sim.machine.process(name)
        self._begin(process, what, branch, a, b)
        process.go()
        return process

    def _check_ends(self) -> None:
        """Every effect of a finished program has happened; every message arrived once; every store is sound."""
        sim = self.sim
        made = {*sim.made.values()}
        for branch in sim.places():
            if branch.run == RECEIVER:
                continue
            for op in branch.program.ops:
                for each in (op, *op.body):
                    if each.kind in EFFECTS and each.uid not in made:
                        sim.broken.append(f"{each.kind} {each.uid} of {branch.run} was left out")
        self._check_messages()
        for name in [*sim.machine.disks]:
            store = sim.machine.process("z").store(name)
            for found in store.examine():
                if found.verdict == "failure":
                    sim.broken.append(f"{name}: {found.text}")

    def _check_messages(self) -> None:
        sim = self.sim
        store = sim.machine.process("z").store(MAIN)
        got = Counter(
            store.content(event)["value"]["uid"]
            for event in store.events(RECEIVER)
            if event.kind == "message.received"
        )
        for branch in sim.places():
            for op in branch.program.ops:
                is_wrong = got[op.uid] == 0 or (branch.is_whole and got[op.uid] != 1)
                if op.kind == "send" and op.uid in sim.sent and is_wrong:
                    sim.broken.append(f"message {op.uid} of {branch.run} arrived {got[op.uid]} times")
