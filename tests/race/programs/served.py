"""Agents for worker processes. The world is the directory they run in: a line in ``ledger`` is a payment, one in ``calls`` a
step's beginning or end, a file ``inside-RUN`` says that a run has come to its gate, and ``go`` opens all gates.

A line is one write to a file opened with O_APPEND: lines of many processes do not mix.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import holdfast

PATIENCE_S = 60.0


def note(file: str, **fields: Any) -> None:
    with Path(file).open("ab", buffering=0) as out:
        out.write(json.dumps({**fields, "pid": os.getpid(), "at": time.monotonic()}).encode() + b"\n")


def wait_at_gate(run: str) -> None:
    Path(f"inside-{run}").write_text(str(os.getpid()))
    deadline = time.monotonic() + PATIENCE_S
    while not Path("go").exists():
        assert time.monotonic() < deadline, "nobody opened the gate"
        time.sleep(0.01)


def work(run: str, number: int, seconds: float) -> int:
    note("calls", run=run, number=number, what="begins")
    time.sleep(seconds)
    note("calls", run=run, number=number, what="ends")
    return number


def find_payment(run: str, *, idempotency_key: str) -> holdfast.Done | holdfast.NotDone:
    ledger = Path("ledger")
    lines = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    return holdfast.Done(run) if any(line["key"] == idempotency_key for line in lines) else holdfast.NotDone()


@holdfast.tool(effect="once", verify=find_payment, settle_s=0)
def pay(run: str, *, idempotency_key: str = holdfast.KEY) -> str:
    note("ledger", run=run, key=idempotency_key)
    return run


@holdfast.tool(effect="once", verify=find_payment, settle_s=0)
def pay_behind_gate(run: str, *, idempotency_key: str = holdfast.KEY) -> str:
    wait_at_gate(run)
    note("ledger", run=run, key=idempotency_key)
    return run


@holdfast.tool(effect="idempotent")
def repay_behind_gate(run: str, *, idempotency_key: str = holdfast.KEY) -> str:
    wait_at_gate(run)
    note("ledger", run=run, key=idempotency_key)
    return run


@holdfast.agent("steady")
def steady(run: holdfast.Run, me: str, steps: int = 1, seconds: float = 0.1) -> int:
    total = sum(run.step("work", work, me, number, seconds) for number in range(steps))
    pay(me)
    return total


@holdfast.agent("gated")
def gated(run: holdfast.Run, me: str) -> str:
    run.step("work", work, me, 1, 0.0)
    run.step("gate", wait_at_gate, me)
    run.step("work", work, me, 2, 0.0)
    return pay(me)


@holdfast.agent("payer")
def payer(run: holdfast.Run, me: str, effect: str) -> str:
    run.step("work", work, me, 1, 0.0)
    return pay_behind_gate(me) if effect == "once" else repay_behind_gate(me)


@holdfast.agent("poison")
def poison(run: holdfast.Run) -> None:
    run.step("work", work, "poison", 1, 0.0)
    os.kill(os.getpid(), signal.SIGKILL)


@holdfast.agent("child")
def child(run: holdfast.Run, me: str) -> int:
    run.step("work", work, me, 1, 0.0)
    pay(me)
    return os.getpid()


@holdfast.agent("parent")
def parent(run: holdfast.Run, me: str) -> dict[str, int]:
    run.step("work", work, me, 1, 0.0)
    served = run.child("part", "child", queue=True, me=f"{me}/part")
    pay(me)
    return {"parent": os.getpid(), "child": served}
