"""One simulation: the world outside, what each branch of history was promised, and whether the promises were kept.

The promises are those of the README, literally: nothing acknowledged is lost, nothing finished is repeated, nothing in doubt is
guessed, nobody writes late, nothing is silently different, cost follows the change. What breaks one of them is noted in
``broken``: an error raised inside a tool would only put its effect in doubt.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulator.machine import Machine, Process
from tests.simulator.programs import Op, Program, call

import holdfast
from holdfast.engine.journal.journal import Journal
from holdfast.model.store_rows import RunRow, Status

MAIN: Final = "main"
WRITES_MAX: Final = {
    "read": 2, "fails": 2, "pay": 4, "transfer": 5, "post": 3, "ask": 4, "nap": 3, "send": 8, "promise": 16,
}  # fmt: skip
"""How many writes an operation may need where nothing goes wrong, however long the history is. Replayed, it needs none."""
EFFECTS: Final = frozenset({"pay", "transfer", "post"})


class Stop(Exception):
    """Ends an attempt in the middle, as far as the journal knows."""


@dataclass
class Branch:
    """One run and its children, and what it was promised."""

    store: str
    run: str
    program: Program
    known: set[int] = field(default_factory=set)
    """The effects that it has made or heard of: none of them happens again in it."""
    acked: dict[int, tuple[Any, float]] = field(default_factory=dict)
    """By operation: the value that the program was given, and the event up to which it is recorded."""
    failed: dict[int, int] = field(default_factory=dict)
    """By operation that has failed: the fence of the attempt in which it did."""
    passed: dict[int, float] = field(default_factory=dict)
    """By operation that has failed: the event that its attempt recorded next. The last failure of an attempt ended it, as far
    as the journal knows, and is tried again."""
    answered: dict[int, str] = field(default_factory=dict)
    resolved: set[tuple[str, str]] = field(default_factory=set)
    """Keys of the steps in doubt that a person has said are done."""
    state_n: int = 0
    """How far the last acknowledged state is."""
    is_whole: bool = True
    """Whether it has its own history only: no other branch has sent its messages, too."""
    before_rewind: "Branch | None" = None
    rewinding: int = 0
    """How many rewinds are under way: what is acknowledged until one has the lease may be taken back by it."""
    rewinds: int = 0
    """How many have begun. What a person said before one may have gone with the kept branch before the answer came."""

    def copy(
        self, run: str, *, upto_seq: float, store: str = "", minus: frozenset[int] = frozenset()
    ) -> "Branch":
        """A branch that begins with the history up to an event, and has heard of what came behind."""
        acked = {uid: (value, seq) for uid, (value, seq) in self.acked.items() if seq <= upto_seq}
        made = Branch(store or self.store, run, self.program, self.known - minus, acked, is_whole=False)
        made.passed = {uid: seq for uid, seq in self.passed.items() if seq <= upto_seq}
        return made


class Simulation:
    """The world of one seed."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.branches: dict[tuple[str, str], Branch] = {}
        self.broken: list[str] = []
        self.modes: dict[int, str] = {}
        """What goes wrong when an effect is made the first time: the line breaks before or after it."""
        self.receipts: dict[str, str] = {}
        """By idempotency key: what really happened."""
        self.allowed: dict[str, set[str]] = {}
        """By idempotency key: the branches in which a person has said that the effect may be made. If another branch, which
        shares the doubt, has made it meanwhile, it happens twice under one key: docs/guarantees.md, promise 3."""
        self.maker: dict[str, str] = {}
        """By idempotency key: the branch that made the effect last."""
        self.made: dict[str, int] = {}
        """By receipt: the operation that made it."""
        self.sent: dict[int, bool] = {}
        """By operation: the messages whose sending was acknowledged."""
        self.in_flight: dict[str, Process] = {}
        self.at: dict[str, tuple[Branch, Op, holdfast.Run]] = {}
        """By process: the operation that it is in."""
        self.doubted: dict[tuple[str, str], int] = {}
        """By run and key: the operation whose call stopped for a person."""
        self.names = 0

    # -- where we are --------------------------------------------------------------------------------------------------

    @property
    def process(self) -> Process:
        """The process that runs."""
        found = self.machine.running
        assert found is not None, "no process runs"
        return found

    def modules(self) -> dict[str, str]:
        """The program of the running process, as Holdfast tells programs apart."""
        here = self.at.get(self.process.owner)
        return {"__main__": "1"} if here is None else here[0].program.modules

    def branch_of(self, run: holdfast.Run) -> Branch:
        here = self.at.get(self.process.owner)
        assert here is not None, f"{run.id} is entered by nobody"
        return here[0]

    def row(self, store: str, run: str) -> RunRow | None:
        return self.machine.disk(store).tables.runs.get(run)

    def places(self) -> list[Branch]:
        """The branches whose runs exist and may act, in the order of their making."""
        self._find_kept()
        return [
            branch
            for branch in self.branches.values()
            if (row := self.row(branch.store, branch.run)) is not None
            and row.status not in {Status.SEALED, Status.IMPORTING}
        ]

    def add(self, branch: Branch) -> None:
        """Note a branch, unless its run is there: then a task that was cut off, and is repeated, has made it."""
        row = self.row(branch.store, branch.run)
        if row is None or row.status == Status.IMPORTING or (branch.store, branch.run) not in self.branches:
            self.branches[branch.store, branch.run] = branch

    def new_name(self) -> str:
        self.names += 1
        return f"f{self.names}"

    def _find_kept(self) -> None:
        """A rewind that was killed has kept a branch, or has not; it is known by what it was before."""
        for name, disk in self.machine.disks.items():
            for row in [*disk.tables.runs.values()]:
                if "/" in row.run or (name, row.run) in self.branches:
                    continue
                of = [
                    one for one in self.branches.values() if one.store == name and row.run.startswith(one.run)
                ]
                rewound = max(of, key=lambda one: len(one.run), default=None)
                if rewound is not None and rewound.before_rewind is not None:
                    before = rewound.before_rewind
                    self.add(before.copy(row.run, upto_seq=float("inf")))

    # -- the world outside ---------------------------------------------------------------------------------------------

    def _here(self) -> tuple[Branch, Op, bool]:
        """The branch and the operation of the running process, and whether it still holds the run."""
        branch, op, run = self.at[self.process.owner]
        fence, owner = self.machine.disk(branch.store).holder(run.id)
        journal = run._held.journal
        return branch, op, journal is not None and (journal.fence, self.process.owner) == (fence, owner)

    def read(self, what: str) -> str:
        """A step's function runs: it was not finished before."""
        self.process.turn()
        branch, op, is_holder = self._here()
        if is_holder and self._is_finished(branch, op):
            self.broken.append(f"{op.kind} {op.uid} of {branch.run} was finished, and is made again")
        self.machine.counts["reads"] += 1
        return f"{what} of {op.uid}"

    def _is_finished(self, branch: Branch, op: Op) -> bool:
        """Whether the program was given its outcome; of a failure, whether it went past it."""
        return op.uid in (branch.passed if op.kind == "fails" else branch.acked)

    def receipt(self, key: str) -> str | None:
        """What the outside shows under this key."""
        self.process.turn()
        return self.receipts.get(key)

    def happen(self, what: str, key: str) -> str:
        """An effect happens, and the line may break before or after it."""
        branch, op, _ = self._here()
        del what
        other = self.in_flight.get(key)
        if other is not None and other is not self.process and not other.is_dead:
            self.broken.append(
                f"{op.kind} {op.uid} of {branch.run} is made again while {other.owner} may still make it"
            )
        self.in_flight[key] = self.process
        self.process.turn()
        mode = self.modes.pop(op.uid, "")
        if mode == "before":
            self.in_flight.pop(key, None)
            raise ConnectionError("the line broke before it")
        receipt = self._make(key)
        self.process.turn()
        self.in_flight.pop(key, None)
        if mode == "after":
            raise ConnectionError("the line broke behind it")
        return receipt

    def _make(self, key: str) -> str:
        branch, op, is_holder = self._here()
        is_allowed = branch.run in self.allowed.get(key, ()) and self.maker.get(key) != branch.run
        if key in self.receipts and not is_allowed:
            self.broken.append(f"{op.kind} {op.uid} of {branch.run} happened twice under one key")
        if is_holder and op.uid in branch.known:
            self.broken.append(f"{op.kind} {op.uid} happened again in {branch.run}, which knew of it")
        receipt = f"receipt {len(self.made) + 1}"
        self.receipts[key], self.made[receipt], self.maker[key] = receipt, op.uid, branch.run
        if is_holder:  # a stopped process that wakes may act late on the world, where only its key protects
            branch.known.add(op.uid)
        self.machine.counts["effects"] += 1
        self.machine.trace(f"effect {op.uid} {key}")
        return receipt

    def happen_idempotent(self, what: str, key: str) -> str:
        """The outside makes it once for each key, and gives the same receipt again."""
        del what
        self.process.turn()
        branch, op, is_holder = self._here()
        if key not in self.receipts:
            return self._make(key)
        if is_holder and op.uid in branch.acked:
            self.broken.append(f"{op.kind} {op.uid} of {branch.run} was finished, and is made again")
        return self.receipts[key]

    # -- programs ------------------------------------------------------------------------------------------------------

    def enter(self, process: Process, branch: Branch, upto: int, *, finishes: bool = False) -> None:
        """One attempt of a run: the first operations of its program."""
        with holdfast.run(branch.run, store=process.store(branch.store), retention=None, loops=False) as run:
            ops = branch.program.ops
            self.at[process.owner] = (branch, ops[0], run)
            state: dict[str, Any] = {"n": 0, "given": []}
            if branch.program.restores:
                state = run.restore(state)
                self._check_state(branch, run, state)
            given = [*state["given"]]
            for number in range(state["n"], len(ops) if finishes else min(upto, len(ops))):
                given += self.execute(run, branch, ops[number : number + 1])
                if branch.program.restores:
                    run.checkpoint({"n": number + 1, "given": given})
                    if self._is_held(branch, run):
                        branch.state_n = max(branch.state_n, number + 1)
            if not finishes:
                raise Stop
            run.finish(given)

    def _check_state(self, branch: Branch, run: holdfast.Run, state: dict[str, Any]) -> None:
        if self._is_held(branch, run) and state["n"] < branch.state_n:
            self.broken.append(
                f"{branch.run} had saved its state at {branch.state_n}, and restores {state['n']}"
            )
        for op, value in zip(branch.program.ops, state["given"], strict=False):
            self._check_value(branch, run, op, value)

    def execute(self, run: holdfast.Run, branch: Branch, ops: Sequence[Op]) -> list[Any]:
        """Make these calls one behind the other, and compare what each returns with what it returned before."""
        process, given = self.process, []
        outer = self.at.get(process.owner)
        for op in ops:
            self.at[process.owner] = (branch, op, run)
            was_acked, writes, process.slept = (
                self._is_finished(branch, op),
                process.writes,
                bool(process.faults),
            )
            before = 0 if (journal := run._held.journal) is None else journal.head
            value = call(run, op)
            self._check_value(branch, run, op, value)
            if self._is_held(branch, run):
                self._check_cost(branch, op, process, process.writes - writes, was_acked)
                assert journal is not None
                in_child = "/" in run.id
                seq = float("inf") if in_child else journal.head
                branch.acked[op.uid] = (value, min(seq, branch.acked.get(op.uid, (None, seq))[1]))
                if not in_child and journal.head > before:
                    self._pass_failures(branch, op, journal)
                if op.kind == "child":
                    for inner in op.body:  # as much as the child itself, when it was acknowledged first
                        known, since = branch.acked.get(inner.uid, (None, float("inf")))
                        branch.acked[inner.uid] = (known, min(since, journal.head))
                if op.kind == "send":
                    self.sent[op.uid] = True
            given.append(value)
        if outer is not None:
            self.at[process.owner] = outer
        return given

    @staticmethod
    def _pass_failures(branch: Branch, op: Op, journal: Journal) -> None:
        """The attempt has recorded something: what failed in it before did not end it."""
        for uid, fence in branch.failed.items():
            if fence == journal.fence:
                branch.passed.setdefault(uid, journal.head)
        if op.kind == "fails":
            branch.failed[op.uid] = journal.fence

    def _is_held(self, branch: Branch, run: holdfast.Run) -> bool:
        journal = run._held.journal
        holder = self.machine.disk(branch.store).holder(run.id)
        return journal is not None and (journal.fence, self.process.owner) == holder and not branch.rewinding

    def _check_value(self, branch: Branch, run: holdfast.Run, op: Op, value: Any) -> None:
        """Nothing is silently different, and nothing in doubt is guessed."""
        if not self._is_held(branch, run):
            return
        if op.uid in branch.acked and (before := branch.acked[op.uid][0]) != value and op.kind != "child":
            self.broken.append(f"{op.kind} {op.uid} of {branch.run} gave {before!r}, and now {value!r}")
        if op.kind in EFFECTS and self.made.get(value) != op.uid:
            self.broken.append(f"{op.kind} {op.uid} of {branch.run} gave {value!r}: that did not happen")
        if op.kind == "read" and value != f"{op.arg} of {op.uid}":
            self.broken.append(
                f"{op.kind} {op.uid} of {branch.run} gave {value!r}, the value of another call"
            )
        if op.kind == "ask" and branch.answered.get(op.uid, value) != value:
            self.broken.append(f"question {op.uid} of {branch.run} was answered otherwise than {value!r}")

    def _check_cost(self, branch: Branch, op: Op, process: Process, writes: int, was_acked: bool) -> None:
        """Cost follows the change: what is recorded costs no write, what is new a few."""
        if process.slept or process.faults or op.kind == "child":
            return
        most = 0 if was_acked and op.kind != "promise" else WRITES_MAX[op.kind]
        if writes > most:
            self.broken.append(f"{op.kind} {op.uid} of {branch.run} took {writes} writes, {most} are enough")
