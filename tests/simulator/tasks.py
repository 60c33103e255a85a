"""What a simulated process is told to do: enter a run, fork, rewind, prune, move, hand over, answer, settle.

Each task may be killed, stopped or refused at any of its port calls. What it would have changed is therefore noted before it
begins, as far as it weakens a promise, and afterwards as far as it makes a new one.
"""

import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.simulator.machine import Process
from tests.simulator.programs import RECEIVER
from tests.simulator.simulation import MAIN, Branch, Simulation, Stop

import holdfast
from holdfast import Retention
from holdfast.core.journal.lineage import effective
from holdfast.engine.journal.lineage_names import is_kept_branch
from holdfast.errors import (
    ChildFailed,
    Diverged,
    EffectUnclaimed,
    ExportError,
    Misuse,
    RunRefused,
    StopSignal,
    StoreUnavailable,
)
from holdfast.model.event_fields import fields_of, part_of
from holdfast.model.events import Event, Kind

REFUSED = (Stop, StoreUnavailable, RunRefused, ChildFailed, ConnectionError, Misuse, ExportError)
"""How a task may end, by name; everything else is a defect."""
FORK_WRITES_MAX: Final = 8
"""However long the history is."""


class Tasks:
    """The tasks of one simulation."""

    def __init__(self, sim: Simulation, directory: Path) -> None:
        self.sim = sim
        self._directory = directory
        self.parcels: dict[tuple[str, str], Path] = {}
        """Moves that may have been interrupted: the run, and its file."""
        self._began: dict[str, int] = {}
        self._said: dict[tuple[str, str, str], int] = {}
        """When people said something, by what it was about; in port calls, as the beginnings of tasks."""
        self.handed: dict[tuple[str, str], str] = {}
        """Handoffs that may have been interrupted: the run, and who takes over."""

    def run(self, process: Process, what: str, branch: Branch, a: int, b: int) -> None:
        """Do it. A refusal by name is one of its ends."""
        process.story = f"{what} {branch.run}"
        self._began[process.owner] = self._now
        process.machine.counts[what] += 1
        try:
            getattr(self, what)(process, branch, a, b)
            end = "done"
        except EffectUnclaimed as stop:
            end = type(stop).__name__
        except Diverged as wrong:
            self.sim.broken.append(f"{process.story}: {wrong!r}")
            end = "diverged"
        except holdfast.AwaitingAnswer as waits:
            end = self._asked_again(branch, waits)
        except holdfast.StepInDoubt as doubt:
            said = ("resolved", doubt.run, doubt.key)
            if said[1:] in branch.resolved and self._is_older(said):
                self.sim.broken.append(
                    f"{doubt.step} of {doubt.run} was resolved as done, and is in doubt again"
                )
            self.sim.doubted[doubt.run, doubt.key] = self.sim.at[process.owner][1].uid
            end = "in doubt"
        except (*REFUSED, StopSignal) as refused:
            end = type(refused).__name__
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.sim.broken.append(f"{process.story} raised {error!r} at {where.name}")
            end = "raised"
        process.story += f" ({end})"
        process.machine.counts[f"end {end}"] += 1
        process.machine.trace(process.story)

    def _asked_again(self, branch: Branch, waits: holdfast.AwaitingAnswer) -> str:
        asked = self.sim.at[self.sim.process.owner][1].uid
        said = ("answered", branch.run, str(asked))
        if (
            asked in branch.answered
            and self._is_older(said)
            and not self._is_withdrawn(branch, waits.run, asked)
        ):
            self.sim.broken.append(f"question {asked} of {waits.run} was answered, and is asked again")
        return "asked"

    def _is_withdrawn(self, branch: Branch, run: str, uid: int) -> bool:
        """Whether an edited program asked something else at that place: then an unread answer does not count."""
        tables = self.sim.machine.disk(branch.store).tables
        events, history = tables.events.get(run, []), list[Event]()
        while run in tables.runs:  # a fork's question may have been asked by its origin
            history += tables.events.get(run, [])
            run = tables.runs[run].origin or ""
        asked = {
            event.name
            for event in history
            if event.kind == Kind.QUESTION_ASKED and part_of(event.body, "question") == f"question {uid}"
        }
        return any(
            event.name in asked and fields_of(event.body)["how"] == "withdrawn"
            for event in events
            if event.kind == Kind.QUESTION_ANSWERED
        )

    @property
    def _now(self) -> int:
        return self.sim.machine.counts["port calls"]

    def _is_older(self, said: tuple[str, str, str]) -> bool:
        """Whether it was said before this attempt began: one that is on its way may just have looked for it."""
        return self._said.get(said, 0) < self._began[self.sim.process.owner]

    # -- the tasks -----------------------------------------------------------------------------------------------------

    def enter(self, process: Process, branch: Branch, a: int, _b: int) -> None:
        self.sim.enter(process, branch, 1 + a % (len(branch.program.ops) + 1))

    def finish(self, process: Process, branch: Branch, _a: int, _b: int) -> None:
        self.sim.enter(process, branch, 0, finishes=True)

    def fork(self, process: Process, branch: Branch, a: int, b: int) -> None:
        sim, store = self.sim, process.store(branch.store)
        seq = self._point(branch, a)
        if not seq:
            return
        again = b % 4 == 0
        place, name = f"{branch.run}@#{seq}", sim.new_name()
        source, listed = self._with_event(branch, seq), frozenset[int]()
        if again:
            behind = store.effects_behind(place)
            listed = frozenset(source.known) if behind else listed
        made = source.copy(name, upto_seq=seq, minus=listed)
        branch.is_whole = source.is_whole = False
        writes, process.slept = process.writes, bool(process.faults)
        sim.add(made)
        store.fork(place, as_=name, effects="again" if again else "answer")
        if not process.slept and process.writes - writes > FORK_WRITES_MAX:
            sim.broken.append(f"the fork {name} took {process.writes - writes} writes")

    def rewind(self, process: Process, branch: Branch, a: int, _b: int) -> None:
        seq = self._point(branch, a)
        if not seq:
            return
        self._clear_out(process, branch)
        kept = branch.copy(branch.run, upto_seq=float("inf"))
        kept.before_rewind = branch.before_rewind
        branch.before_rewind = kept
        self._weaken(branch, seq)
        is_alone, number = not branch.rewinding, branch.rewinds + 1
        branch.rewinding, branch.rewinds = branch.rewinding + 1, number
        try:
            rewound = process.store(branch.store).rewind(f"{branch.run}@#{seq}")
        finally:
            branch.rewinding -= 1
            self._weaken(branch, seq)
            if not is_alone or branch.rewinds != number:  # which of two was first is not known here
                kept.acked, kept.passed = {}, {}
        self.sim.add(kept.copy(rewound.kept, upto_seq=float("inf")))

    def prune(self, process: Process, branch: Branch, _a: int, _b: int) -> None:
        process.store(branch.store).prune(branch.run, policy=Retention(compact_events=1))

    def move(self, process: Process, branch: Branch, _a: int, _b: int) -> None:
        """To another store, in a file; the run is sealed here."""
        if branch.run == RECEIVER:
            return
        self._clear_out(process, branch)
        place = (branch.store, branch.run)
        path = self.parcels.setdefault(place, self._directory / f"{len(self.parcels)}.holdfast")
        other = f"{branch.store}+"
        self.sim.add(self._moved(branch, other, branch.run))
        store = process.store(branch.store)
        store.export(branch.run, path, move=True)
        process.store(other).import_(path, from_=store)

    def handoff(self, process: Process, branch: Branch, _a: int, _b: int) -> None:
        """To another run of the same store; this one is sealed."""
        if branch.run == RECEIVER:
            return
        self._clear_out(process, branch)
        place = (branch.store, branch.run)
        name = self.handed.setdefault(place, self.sim.new_name())
        made = self._moved(branch, branch.store, name)
        made.acked, made.passed, made.state_n = (
            {},
            {},
            0,
        )  # another program could go on with it: only effects are known to it
        made.answered, made.resolved = {}, set()
        self.sim.add(made)
        store = process.store(branch.store)
        store.accept(store.handoff(branch.run, to=name, seal=True), as_=name)

    def people(self, process: Process, branch: Branch, _a: int, _b: int) -> None:
        """People say what they are asked: they look at the world, and speak the truth."""
        store = process.store(branch.store)
        family = [
            row.run
            for row in [*self.sim.machine.disk(branch.store).tables.runs.values()]
            if row.run.partition("/")[0] == branch.run
        ]
        for run in family:
            self._answer(store, branch, run)
            self._settle(process, store, branch, run)
            for stopped in store.stopped_calls(run):
                if stopped.pending is None:
                    store.resolve(run, stopped.effects[0].id, "new", asked=stopped.key)

    def receive(self, process: Process, _branch: Branch, _a: int, _b: int) -> None:
        """The receiver reads what it was sent."""
        with holdfast.run(RECEIVER, store=process.store(MAIN), retention=None, loops=False) as run:
            while True:
                run.receive()

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _answer(self, store: holdfast.Store, branch: Branch, run: str) -> None:
        for asked in store.questions(run):
            if asked.pending is None:
                uid = int(asked.question.rpartition(" ")[2])
                value = f"answer {uid} of {self.sim.machine.now:.0f}"
                rewinds = branch.rewinds
                with suppress(RunRefused):
                    store.answer(run, value, asked.id)
                    if not branch.rewinding and branch.rewinds == rewinds:
                        branch.answered[uid] = value
                        self._said["answered", branch.run, str(uid)] = self._now

    def _settle(self, process: Process, store: holdfast.Store, branch: Branch, run: str) -> None:
        for doubt in store.doubts(run):
            if doubt.pending is not None:
                continue
            self._clear_out(process, branch)
            call = store.view(run).calls.get(doubt.key)
            if call is None:  # another process has rewound the run meanwhile
                continue
            body = fields_of(call.body or b"{}")
            key = body.get("idempotency_key", "")
            receipt = self.sim.receipts.get(key) or self._known_receipt(branch, run, doubt.key)
            rewinds = branch.rewinds
            with suppress(RunRefused):
                if receipt is None:
                    self.sim.allowed.setdefault(key, set()).add(branch.run)
                    store.resolve(run, doubt.key, "retry")
                else:
                    store.resolve(run, doubt.key, "done", value=receipt)
                    if not branch.rewinding and branch.rewinds == rewinds:
                        branch.resolved.add((run, doubt.key))
                        self._said["resolved", run, doubt.key] = self._now

    def _known_receipt(self, branch: Branch, run: str, key: str) -> str | None:
        """A person is also asked about what another history has made, and its result is gone there."""
        uid = self.sim.doubted.get((run, key))
        if uid not in branch.known:
            return None
        return next((receipt for receipt, of in reversed(self.sim.made.items()) if of == uid), None)

    def _clear_out(self, process: Process, branch: Branch) -> None:
        """A careful person makes sure that no process works at the run before its effects are decided about."""
        for other in [*self.sim.machine.processes.values()]:
            here = self.sim.at.get(other.owner)
            if other is not process and not other.is_dead and other.is_busy and here and here[0] is branch:
                other.die()

    def _weaken(self, branch: Branch, seq: int) -> None:
        """What was promised about events behind this one is promised to the kept branch."""
        branch.acked = {uid: kept for uid, kept in branch.acked.items() if kept[1] <= seq}
        branch.passed = {uid: since for uid, since in branch.passed.items() if since <= seq}
        branch.answered, branch.resolved, branch.state_n, branch.is_whole = {}, set(), 0, False

    def _moved(self, branch: Branch, store: str, run: str) -> Branch:
        made = branch.copy(run, upto_seq=float("inf"), store=store)
        made.answered, made.resolved, made.state_n = {**branch.answered}, {*branch.resolved}, branch.state_n
        return made

    def _with_event(self, branch: Branch, seq: int) -> Branch:
        """The branch whose history has this event now: this one, or one that a rewind has kept."""
        events = self.sim.machine.disk(branch.store).tables.events[branch.run]
        if any(event.seq == seq for event in effective(events)):
            return branch
        kept = [
            (row.origin_seq, one)
            for one in self.sim.places()
            if one.store == branch.store
            and (row := self.sim.row(one.store, one.run)) is not None
            and is_kept_branch(row)
            and row.origin == branch.run
            and row.origin_seq >= seq
        ]
        return min(kept, key=lambda each: each[0], default=(0, branch))[1]

    def _point(self, branch: Branch, a: int) -> int:
        """An event of this run, any of them; 0 if it has none."""
        events = self.sim.machine.disk(branch.store).tables.events.get(branch.run, [])
        return events[a % len(events)].seq if events else 0
