"""What the simulated runs do: small programs of reads, effects, questions, states and children, made from a seed.

A program is data, so that it can be edited between two attempts. Calls of one program are often equal: which one of them a
recorded outcome belongs to is a thing that can go wrong.
"""

from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import holdfast

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation

RECEIVER: Final = "receiver"
_sim: "list[Simulation]" = []


@dataclass(frozen=True)
class Op:
    """One operation. ``uid`` is what it does in the world, whatever the program calls it."""

    kind: str
    uid: int
    arg: str = ""
    body: "tuple[Op, ...]" = ()


@dataclass
class Program:
    """The program of a run and of its forks, as it is written now."""

    ops: tuple[Op, ...]
    restores: bool
    modules: dict[str, str] = field(default_factory=lambda: {"__main__": "1"})

    def edit(self, made: Op, at: int) -> None:
        """Another version: one more operation. A program that counts its operations grows only at its end."""
        at = len(self.ops) if self.restores else at % (len(self.ops) + 1)
        self.ops = (*self.ops[:at], made, *self.ops[at:])
        self.modules = {"__main__": str(int(self.modules["__main__"]) + 1)}

    def find(self, uid: int) -> Op:
        return next(op for op in self.ops if op.uid == uid)


KINDS: Final = (
    "read", "read", "read", "fails", "pay", "pay", "transfer", "transfer", "post", "ask", "child", "nap", "send", "promise",
)  # fmt: skip


class Maker:
    """Makes programs from a seed."""

    def __init__(self, random: Random, *, with_messages: bool) -> None:
        self._random = random
        self._kinds = [kind for kind in KINDS if with_messages or kind not in {"send", "promise"}]
        self._uids = 0

    def program(self) -> Program:
        random = self._random
        ops = tuple(self.op() for _ in range(random.randint(2, 6)))
        return Program(ops, random.random() < 0.3)

    def op(self, *, is_new: bool = False, depth: int = 1) -> Op:
        self._uids += 1
        uid, random = self._uids, self._random
        kind = random.choice(self._kinds if depth else ["read", "pay", "transfer"])
        arg = f"new {uid}" if is_new else random.choice(["a", "a", "b", f"{uid}"])
        if kind in {"ask", "nap", "send", "promise", "child"}:
            arg = f"{uid}"
        body = tuple(self.op(depth=0) for _ in range(random.randint(1, 2))) if kind == "child" else ()
        return Op(kind, uid, arg, body)

    def new_op(self) -> Op:
        """One that no other call of a program can be taken for."""
        found = self.op(is_new=True)
        # A nap is like every other one: the recorded end of another would answer it.
        return replace(found, kind="read", body=()) if found.kind in {"child", "nap"} else found


def use(simulation: "Simulation") -> None:
    """The world of the functions below, from now on."""
    _sim[:] = [simulation]


def sim() -> "Simulation":
    """The simulation that runs."""
    return _sim[0]


def look(what: str) -> str:
    """A read."""
    return sim().read(what)


def fail(what: str) -> str:
    """A read that always fails."""
    sim().read(what)
    raise ValueError(f"there is no {what}")


def _is_paid(idempotency_key: str) -> Any:
    receipt = sim().receipt(idempotency_key)
    return holdfast.NotDone() if receipt is None else holdfast.Done(receipt)


@holdfast.tool(effect="once", name="pay", settle_s=0)
def pay(what: str, *, idempotency_key: str = holdfast.KEY) -> str:
    """An effect that nobody but a person can look up."""
    return sim().happen(what, idempotency_key)


@holdfast.tool(effect="once", name="transfer", settle_s=0, verify=_is_paid)
def transfer(what: str, *, idempotency_key: str = holdfast.KEY) -> str:
    """An effect that can be looked up."""
    return sim().happen(what, idempotency_key)


@holdfast.tool(effect="idempotent", name="post")
def post(what: str, *, idempotency_key: str = holdfast.KEY) -> str:
    """An effect that may be repeated under its key."""
    return sim().happen_idempotent(what, idempotency_key)


@holdfast.agent(name="simulated child", loops=False)
def child(run: holdfast.Run, uid: int) -> Any:
    """A part of the parent's program, in a run of its own."""
    simulation = sim()
    branch = simulation.branch_of(run)
    return simulation.execute(run, branch, branch.program.find(uid).body)


def call(run: holdfast.Run, op: Op) -> Any:
    """Make the call of an operation; its value."""
    if op.kind == "read":
        return run.step("look", look, op.arg)
    if op.kind == "fails":
        try:
            return run.step("fail", fail, op.arg)
        except ValueError as error:
            return f"ValueError: {error}"
    if op.kind in {"pay", "transfer", "post"}:
        return {"pay": pay, "transfer": transfer, "post": post}[op.kind](op.arg)
    if op.kind == "ask":
        return run.ask(f"question {op.uid}", returns=str)
    if op.kind == "child":
        return run.child(f"c{op.uid}", child, op.uid)
    if op.kind == "nap":
        return run.sleep(30.0, wait_s=1.0)
    if op.kind == "send":
        return run.send(RECEIVER, {"uid": op.uid})
    assert op.kind == "promise", op.kind
    return run.keep(run.promise(f"promise {op.uid}", to=RECEIVER)).state
